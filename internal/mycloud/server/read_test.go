package server_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

func TestConditionalReads(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	first := must[*cloudv1.Instance](t)(c.client.Instance(ctx, "i-node-1"))
	list := must[*cloudv1.List[cloudv1.Instance]](t)(c.client.ListInstances(ctx, cloudapi.ListOptions{}))
	unchanged := func() (bool, bool) {
		one := c.send("GET", "/v1/instances/i-node-1", nil, "If-None-Match", `"`+first.Revision+`"`).status == 304
		_, all := c.client.ListInstances(ctx, cloudapi.ListOptions{IfNoneMatch: list.Revision})
		return one, errors.Is(all, cloudapi.ErrNotModified)
	}
	if one, all := unchanged(); !one || !all {
		t.Errorf("nothing has changed: object not modified %t, list %t", one, all)
	}
	must[*cloudv1.Instance](t)(c.client.StopInstance(ctx, "i-node-2", cloudapi.WriteOptions{}))
	if one, all := unchanged(); !one || all {
		t.Errorf("another object has changed: object not modified %t, list %t", one, all)
	}
	must[*cloudv1.Instance](t)(c.client.StopInstance(ctx, "i-node-1", cloudapi.WriteOptions{}))
	if one, _ := unchanged(); one {
		t.Error("the object has changed, but the response is 304")
	}
	a := c.send("GET", "/v1/instances/i-node-3", nil)
	weak := c.send("GET", "/v1/instances/i-node-3", nil, "If-None-Match", `"0", W/`+a.header.Get("ETag")).want(t, 304, "")
	diff(t, "ETag of a 304", a.header.Get("ETag"), weak.header.Get("ETag"))
	diff(t, "body of a 304", 0, len(weak.body))
}

func TestListFilters(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	group := func(name string, tags map[string]string) string {
		g := must[*cloudv1.NodeGroup](t)(
			c.client.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: name, Tags: tags}, cloudapi.WriteOptions{}),
		)
		return g.ID
	}
	a := group("a", map[string]string{"team": "edge", "env": "dev"})
	group("b", map[string]string{"team": "edge", "env": "prod"})
	group("c", nil)
	tests := map[string]struct {
		options cloudapi.ListOptions
		want    int
	}{
		"all":                 {cloudapi.ListOptions{}, 3},
		"one tag":             {cloudapi.ListOptions{Tags: map[string]string{"team": "edge"}}, 2},
		"both tags":           {cloudapi.ListOptions{Tags: map[string]string{"team": "edge", "env": "prod"}}, 1},
		"tag of no object":    {cloudapi.ListOptions{Tags: map[string]string{"team": "core"}}, 0},
		"name":                {cloudapi.ListOptions{Name: "c"}, 1},
		"ids":                 {cloudapi.ListOptions{IDs: []string{a, "ng-none"}}, 1},
		"state where none is": {cloudapi.ListOptions{State: "active"}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := must[*cloudv1.List[cloudv1.NodeGroup]](t)(c.client.ListNodeGroups(ctx, test.options))
			diff(t, "found", test.want, len(l.Items))
		})
	}
	c.send("GET", "/v1/node-groups?tag=env:dev&tag=env:prod", nil).want(t, 200, "")
	c.send("GET", "/v1/node-groups?tag=edge", nil).want(t, 422, "invalid")
	c.send("GET", "/v1/node-groups?limit=501", nil).want(t, 422, "invalid")
}

func TestPagesAreOneSnapshot(t *testing.T) {
	clock := newFakeClock()
	c := newCloud(t, withClock(clock))
	ctx := t.Context()
	for i := range 5 {
		must[*cloudv1.NodeGroup](t)(
			c.client.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: fmt.Sprint(i)}, cloudapi.WriteOptions{}),
		)
	}
	type list = cloudv1.List[cloudv1.NodeGroup]
	first := decode[list](t, c.send("GET", "/v1/node-groups?limit=2", nil).want(t, 200, ""))
	if len(first.Items) != 2 || first.NextPageToken == "" || first.Complete {
		t.Fatalf("first page: %+v", first)
	}
	// Changes between the reads of two pages are not in the snapshot.
	must[*cloudv1.NodeGroup](t)(
		c.client.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: "late"}, cloudapi.WriteOptions{}),
	)
	seen := map[string]bool{}
	page, next := first, first.NextPageToken
	for {
		for _, g := range page.Items {
			seen[g.Name] = true
		}
		diff(t, "revision", first.Revision, page.Revision)
		if page.NextPageToken == "" {
			break
		}
		page = decode[list](t, c.send("GET", "/v1/node-groups?limit=2&page_token="+page.NextPageToken, nil).want(t, 200, ""))
	}
	diff(t, "names", map[string]bool{"0": true, "1": true, "2": true, "3": true, "4": true}, seen)
	if !page.Complete {
		t.Error("the last page does not say that the list is complete")
	}
	all := must[*list](t)(c.client.ListNodeGroups(ctx, cloudapi.ListOptions{PageSize: 2}))
	diff(t, "through the client", 6, len(all.Items))

	c.send("GET", "/v1/instances?page_token="+next, nil).want(t, 410, "page-token-expired")
	c.send("GET", "/v1/node-groups?page_token=nonsense", nil).want(t, 410, "page-token-expired")
	clock.Step(time.Hour)
	c.send("GET", "/v1/node-groups?page_token="+next, nil).want(t, 410, "page-token-expired")
}

func TestTreesComeInSmallPages(t *testing.T) {
	c := newCloud(t)
	for i := range 205 {
		s := tree(fmt.Sprint(i))
		s.Scheme = "internal"
		c.createLB(s)
	}
	var sizes []int
	path := "/v1/load-balancers?limit=500&expand=tree"
	for path != "" {
		page := decode[cloudv1.List[cloudv1.LoadBalancer]](t, c.send("GET", path, nil).want(t, 200, ""))
		sizes = append(sizes, len(page.Items))
		path = ""
		if page.NextPageToken != "" {
			// The pages of the token have trees, too.
			path = "/v1/load-balancers?limit=500&page_token=" + page.NextPageToken
		}
	}
	diff(t, "sizes of pages", []int{100, 100, 5}, sizes)
}

func TestUnknownRequestsProveNothing(t *testing.T) {
	c := newCloud(t)
	tests := map[string]struct {
		method, path string
		status       int
	}{
		"unknown path":         {"GET", "/v1/nothing", 404},
		"other version":        {"GET", "/v2/instances", 404},
		"no id":                {"GET", "/v1/instances/", 404},
		"path to be cleaned":   {"GET", "/v1/zones/../instances", 404},
		"double slash":         {"GET", "/v1//instances", 404},
		"unknown verb":         {"POST", "/v1/instances/i-node-1:explode", 404},
		"the mux's own form":   {"POST", "/v1/instances/i-node-1/:stop", 404},
		"method not allowed":   {"DELETE", "/v1/zones", 405},
		"verb by GET":          {"GET", "/v1/instances/i-node-1:stop", 405},
		"deep below an object": {"GET", "/v1/instances/i-node-1/a/b", 404},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := c.send(test.method, test.path, nil).want(t, test.status, "unsupported")
			if test.status == 405 && a.header.Get("Allow") == "" {
				t.Error("a 405 without Allow")
			}
		})
	}
	a := c.send("GET", "/v1/instances/i-none", nil).want(t, 404, "resource-not-found")
	diff(t, "resource", &cloudv1.Reference{Kind: "instance", ID: "i-none"}, a.problem.Resource)
	if a.problem.RequestID == "" || a.problem.RequestID != a.header.Get("Request-Id") {
		t.Errorf("request id %q in the problem, %q in the header", a.problem.RequestID, a.header.Get("Request-Id"))
	}
}

func TestAuthentication(t *testing.T) {
	c := newCloud(t)
	for name, header := range map[string]string{"none": "", "other token": "Bearer wrong", "other scheme": "Basic " + token} {
		t.Run(name, func(t *testing.T) {
			a := c.send("GET", "/v1/meta", nil, "Authorization", header).want(t, 401, "unauthenticated")
			if a.header.Get("WWW-Authenticate") == "" {
				t.Error("a 401 without WWW-Authenticate")
			}
		})
	}
	c.send("GET", "/healthz", nil, "Authorization", "").want(t, 200, "")
	if a := c.send("GET", "/v1/meta", nil, "Request-Id", "mine"); a.header.Get("Request-Id") != "mine" {
		t.Error("the request's id is not repeated")
	}
}

func TestMalformedBodies(t *testing.T) {
	c := newCloud(t)
	c.send("POST", "/v1/node-groups", `{"name":`).want(t, 400, "invalid")
	c.send("POST", "/v1/node-groups", "").want(t, 400, "invalid")
	c.send("POST", "/v1/node-groups", "x", "Content-Type", "text/plain").want(t, 415, "invalid")
	a := c.send("POST", "/v1/node-groups", `{"name": 5}`).want(t, 422, "invalid")
	diff(t, "fields at fault", []string{"/name"}, a.pointers())
	c.send("POST", "/v1/node-groups", `{"name": "a", "from_the_future": {"x": 1}}`).want(t, 201, "")
}
