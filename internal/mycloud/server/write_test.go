package server_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

func TestPreconditions(t *testing.T) {
	c := newCloud(t)
	lb := c.createLB(tree("one"))
	group := must[*cloudv1.NodeGroup](t)(c.client.CreateNodeGroup(
		t.Context(),
		cloudv1.NodeGroupSpec{Name: "g", Tags: map[string]string{"quaymaster.dev/cluster-uid": "c1"}},
		cloudapi.WriteOptions{},
	))
	objects := map[string]struct{ path, revision, body string }{
		"load balancer": {
			"/v1/load-balancers/" + lb.ID, lb.Revision, `{"name":"n","scheme":"public","listeners":[],"pools":[]}`,
		},
		"node group": {"/v1/node-groups/" + group.ID, group.Revision, `{"name":"n"}`},
	}
	for name, o := range objects {
		for _, method := range []string{"PUT", "DELETE"} {
			t.Run(name+" "+method, func(t *testing.T) {
				var body any
				if method == "PUT" {
					body = o.body
				}
				good := `"` + o.revision + `"`
				tests := map[string]struct {
					ifMatch, ifTags string
					status          int
					code            string
				}{
					"no If-Match":       {"", "", 428, "precondition-required"},
					"stale":             {`"1"`, "", 412, "stale-revision"},
					"weak":              {"W/" + good, "", 412, "stale-revision"},
					"other tag's value": {good, "quaymaster.dev/cluster-uid=c2", 412, "tags-mismatch"},
					"tag it lacks":      {good, "quaymaster.dev/cluster-uid=c1,x=y", 412, "tags-mismatch"},
					"malformed tags":    {good, "quaymaster.dev/cluster-uid", 422, "invalid"},
				}
				for name, test := range tests {
					headers := []string{"If-Match", test.ifMatch, "Mycloud-If-Tags", test.ifTags}
					a := c.send(method, o.path, body, headers...)
					if a.status != test.status || a.problem.Code != test.code {
						t.Errorf("%s: %d %s, want %d %s", name, a.status, a.problem.Code, test.status, test.code)
					}
				}
				c.send(method, o.path+"?dry_run=true", body, "If-Match", good, "Mycloud-If-Tags", "quaymaster.dev/cluster-uid=c1").
					want(t, 200, "")
			})
		}
	}
	now := must[*cloudv1.LoadBalancer](t)(c.client.LoadBalancer(t.Context(), lb.ID))
	diff(t, "after refused writes and dry runs", lb, now)
	c.send("PUT", "/v1/load-balancers/lb-none", objects["load balancer"].body, "If-Match", `"1"`).
		want(t, 404, "resource-not-found")
	// In a creation, the new object must have the tags.
	c.send("POST", "/v1/load-balancers", tree("two"), "Mycloud-If-Tags", "quaymaster.dev/cluster-uid=c2").
		want(t, 412, "tags-mismatch")
	c.send("POST", "/v1/load-balancers", tree("two"), "Mycloud-If-Tags", "quaymaster.dev/cluster-uid=c1").want(t, 201, "")
	// All writes accept tags, including those that do not require a revision.
	c.send("DELETE", "/v1/instances/i-node-1", nil, "Mycloud-If-Tags", "a=b").want(t, 412, "tags-mismatch")
	c.send("POST", "/v1/instances/i-node-1:stop", nil, "If-Match", `"1000"`).want(t, 412, "stale-revision")
}

func TestIdempotency(t *testing.T) {
	clock := newFakeClock()
	c := newCloud(t, withClock(clock))
	ctx := t.Context()
	key := []string{"Idempotency-Key", "k1"}
	first := c.send("POST", "/v1/load-balancers", tree("one"), key...).want(t, 201, "")
	diff(t, "replayed", "", first.header.Get(cloudv1.HeaderIdempotencyReplayed))
	again := c.send("POST", "/v1/load-balancers", tree("one"), key...).want(t, 201, "")
	diff(t, "replayed", "true", again.header.Get(cloudv1.HeaderIdempotencyReplayed))
	diff(t, "the same answer", string(first.body), string(again.body))
	diff(t, "the same ETag", first.header.Get("ETag"), again.header.Get("ETag"))

	c.send("POST", "/v1/load-balancers", tree("two"), key...).want(t, 422, "idempotency-key-reused")
	c.send("POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: "one"}, key...).want(t, 422, "idempotency-key-reused")

	// A problem leaves the key unused, since nothing has taken effect.
	other := []string{"Idempotency-Key", "k2"}
	c.send("POST", "/v1/load-balancers", tree("one"), other...).want(t, 409, "name-taken")
	c.send("POST", "/v1/load-balancers?dry_run=true", tree("three"), other...).want(t, 201, "")
	c.send("POST", "/v1/load-balancers", tree("three"), other...).want(t, 201, "")

	// The stored response survives a restart, and a day.
	c.stop()
	clock.Step(25 * time.Hour)
	c = newCloud(t, withClock(clock), withDir(c.dir))
	again = c.send("POST", "/v1/load-balancers", tree("one"), key...).want(t, 201, "")
	diff(t, "the same answer", string(first.body), string(again.body))
	all := must[*cloudv1.List[cloudv1.LoadBalancer]](t)(c.client.ListLoadBalancers(ctx, cloudapi.ListOptions{}))
	diff(t, "load balancers", 2, len(all.Items))
}

func TestIdempotencyUnderConcurrency(t *testing.T) {
	c := newCloud(t)
	const writers = 8
	ids := make(chan string, writers)
	for range writers {
		go func() {
			for {
				lb, _, err := c.client.CreateLoadBalancer(t.Context(), tree("one"), cloudapi.WriteOptions{IdempotencyKey: "k"})
				if cloudapi.HasCode(err, cloudv1.CodeConflict) {
					continue
				}
				if err != nil {
					ids <- err.Error()
					return
				}
				ids <- lb.ID
				return
			}
		}()
	}
	seen := map[string]bool{}
	for range writers {
		seen[<-ids] = true
	}
	if len(seen) != 1 {
		t.Errorf("one key, but several answers: %v", seen)
	}
}

func TestTagRules(t *testing.T) {
	c := newCloud(t)
	long := fmt.Sprintf("%0256d", 0)
	tests := map[string]struct {
		key, value string
		pointers   []string
	}{
		"slash and dots":   {"quaymaster.dev/adopt", "uid/ns/name", nil},
		"empty value":      {"a", "", nil},
		"comma":            {"a", "b,c", []string{"/tags/a"}},
		"equals sign":      {"a", "b=c", []string{"/tags/a"}},
		"not ASCII":        {"a", "ü", []string{"/tags/a"}},
		"long value":       {"a", long, []string{"/tags/a"}},
		"long key":         {long[:64], "", []string{"/tags/" + long[:64]}},
		"key of odd chars": {"a b/c", "", []string{"/tags/a b~1c"}},
		"key begins badly": {"/a", "", []string{"/tags/~1a"}},
		"dots stay":        {"quaymaster.dev/x y", "", []string{"/tags/quaymaster.dev~1x y"}},
		"brackets, tilde":  {"a[0].b~2", "", []string{"/tags/a[0].b~02"}},
		"empty key":        {"", "", []string{"/tags/"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := c.send(
				"POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: name, Tags: map[string]string{test.key: test.value}},
			)
			diff(t, "fields at fault", test.pointers, a.pointers())
			if (a.status == 201) != (test.pointers == nil) {
				t.Errorf("status %d", a.status)
			}
		})
	}
}

func TestPointersAreExact(t *testing.T) {
	c := newCloud(t)
	tests := map[string]struct {
		path, body string
		want       []string
	}{
		"tags of the wrong type": {
			"/v1/node-groups", `{"name":"a","tags":{"quaymaster.dev/x.y":5,"a[1].b~2/c":5}}`,
			[]string{"/tags/a[1].b~02~1c", "/tags/a[1].b~02~1c", "/tags/quaymaster.dev~1x.y"},
		},
		"what follows a tag with dots": {
			"/v1/load-balancers", `{"name":"a","scheme":"public","tags":{"a.b/c":"d","e.f":"g"},"vips":[{"family":"ipx","mode":"vip"}],
				"listeners":[],"pools":[],"bandwidth_mbps":-1}`, []string{"/bandwidth_mbps", "/vips/0/family"},
		},
		"what follows an unknown field with dots": {
			"/v1/node-groups", `{"a.b":{"c.d":[1]},"name":5}`, []string{"/name"},
		},
		"what is missing": {
			"/v1/node-groups", `{"members":[{"instance_id":"i-1"},{"key":"a","weight":1,"state":"active","addresses":[{"family":"ipv4"}]}]}`,
			[]string{
				"/members/0/addresses", "/members/0/key", "/members/0/state", "/members/0/weight", "/members/1/addresses/0/address",
				"/members/1/addresses/0/address", "/name",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := c.send("POST", test.path, test.body).want(t, 422, "invalid").pointers()
			slices.Sort(got)
			diff(t, "fields at fault", test.want, got)
		})
	}
}
