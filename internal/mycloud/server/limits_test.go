package server_test

import (
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/api/handler"
)

func TestRateLimits(t *testing.T) {
	clock := newFakeClock()
	limits := handler.RateLimits{Read: 3, Write: 1}
	c := newCloud(t, withClock(clock), func(o *server.Options) { o.Limits = limits })
	expect := func(a answer, limit string) {
		t.Helper()
		diff(t, "policy", `"read";q=3;w=60, "write";q=1;w=60`, a.header.Get("RateLimit-Policy"))
		diff(t, "limit", limit, a.header.Get("RateLimit"))
	}
	expect(c.send("GET", "/v1/zones", nil).want(t, 200, ""), `"read";r=2;t=60, "write";r=1;t=60`)
	clock.Step(1500 * time.Millisecond)
	expect(c.send("POST", "/v1/node-groups", `{"name":"a"}`).want(t, 201, ""), `"read";r=2;t=59, "write";r=0;t=59`)
	a := c.send("POST", "/v1/node-groups", `{"name":"b"}`).want(t, 429, "rate-limited")
	expect(a, `"read";r=2;t=59, "write";r=0;t=59`)
	diff(t, "Retry-After", "59", a.header.Get("Retry-After"))
	diff(t, "retryable", true, a.problem.Retryable)
	// Questions are reads, and so is what fails.
	expect(c.send("POST", "/v1/instances:lookup", `{}`).want(t, 200, ""), `"read";r=1;t=59, "write";r=0;t=59`)
	expect(c.send("GET", "/v1/nothing", nil).want(t, 404, "unsupported"), `"read";r=0;t=59, "write";r=0;t=59`)
	c.send("GET", "/v1/zones", nil).want(t, 429, "rate-limited")
	// Requests without the token, and those of probes, do not count.
	c.send("GET", "/v1/zones", nil, "Authorization", "").want(t, 401, "unauthenticated")
	c.send("GET", "/healthz", nil).want(t, 200, "")
	clock.Step(58500 * time.Millisecond)
	expect(c.send("GET", "/v1/zones", nil).want(t, 200, ""), `"read";r=2;t=60, "write";r=1;t=60`)
}

// TestRefusedWritesDoNotCount: those who may write do not wait for those who may not.
func TestRefusedWritesDoNotCount(t *testing.T) {
	c := newCloud(t, withClock(newFakeClock()), func(o *server.Options) { o.Limits.Write = 2 })
	reader := c.issue("reader", cloudv1.TokenFields{Role: "read"})
	for range 5 {
		c.send("POST", "/v1/node-groups", `{"name":"a"}`, "Authorization", "Bearer "+reader.Secret).want(t, 403, cloudv1.CodeForbidden)
		c.send("POST", "/v1/nothing", `{}`, "Authorization", "Bearer "+reader.Secret).want(t, 404, cloudv1.CodeUnsupported)
	}
	c.send("POST", "/v1/node-groups", `{"name":"a"}`).want(t, 201, "")
	c.send("POST", "/v1/node-groups", `{"name":"b"}`).want(t, 429, cloudv1.CodeRateLimited)
}

func TestUnlimitedClassesAreNotMentioned(t *testing.T) {
	c := newCloud(t, func(o *server.Options) { o.Limits.Write = 5 })
	diff(t, "limit", `"write";r=5;t=60`, c.send("GET", "/v1/zones", nil).header.Get("RateLimit"))
	c = newCloud(t)
	if h := c.send("GET", "/v1/zones", nil).header; h["Ratelimit"] != nil || h["Ratelimit-Policy"] != nil {
		t.Errorf("nothing is limited: %v", h)
	}
}

func TestQuotas(t *testing.T) {
	c := newCloud(t, func(o *server.Options) {
		o.Quotas = map[string]int{"load-balancer": 1, "node-group": 1, "instance": 4, "route": 1}
	})
	ctx := t.Context()
	lb := c.createLB(tree("one"))
	c.send("POST", "/v1/load-balancers", tree("two")).want(t, 403, "quota-exceeded")
	c.send("POST", "/v1/load-balancers:validate", tree("two")).want(t, 403, "quota-exceeded")
	if _, _, err := c.client.UpdateLoadBalancer(ctx, lb.ID, tree("two"), cloudapi.WriteOptions{IfMatch: lb.Revision}); err != nil {
		t.Errorf("a change is no creation: %v", err)
	}
	c.send("POST", "/v1/node-groups", `{"name":"a"}`).want(t, 201, "")
	c.send("POST", "/v1/node-groups", `{"name":"b"}`).want(t, 403, "quota-exceeded")
	vm := cloudv1.InstanceSpec{Hostname: "node-9", Type: "m1.small", Zone: "eu-1a"}
	c.send("POST", "/v1/instances", vm).want(t, 403, "quota-exceeded")
	must[*cloudv1.Instance](t)(c.client.DeleteInstance(ctx, "i-node-2", cloudapi.WriteOptions{}))
	c.send("POST", "/v1/instances", vm).want(t, 201, "")
	hop := cloudv1.NextHop{InstanceID: "i-node-1"}
	res := must[*cloudv1.RoutesBatchResult](t)(c.client.BatchRoutes(ctx, "rt-main", cloudv1.RoutesBatch{
		Upsert: []cloudv1.RouteSpec{
			{Destination: "10.244.1.0/24", NextHop: hop}, {Destination: "10.244.2.0/24", NextHop: hop},
			{Destination: "10.244.1.0/24", NextHop: hop},
		},
	}, cloudapi.WriteOptions{}))
	var statuses []int
	for _, r := range res.Results {
		statuses = append(statuses, r.Status)
	}
	diff(t, "statuses", []int{201, 403, 200}, statuses)
}
