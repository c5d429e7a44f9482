package server_test

import (
	"fmt"
	"strings"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

func TestPatchRefusesWhatItDoesNotChange(t *testing.T) {
	c := newCloud(t)
	lb := c.createLB(tree("one"))
	path, match := "/v1/load-balancers/"+lb.ID, []string{"If-Match", `"` + lb.Revision + `"`}
	tests := map[string]struct {
		body, code string
		want       []string
	}{
		"of the tree": {`{"listeners":[]}`, "unsupported", []string{"/listeners"}},
		"two": {
			`{"scheme":"internal","bandwidth_mbps":5}`, "unsupported", []string{"/bandwidth_mbps", "/scheme"},
		},
		"null":               {`{"zones":null}`, "unsupported", []string{"/zones"}},
		"of the cloud":       {`{"provisioning_state":"active"}`, "unsupported", []string{"/provisioning_state"}},
		"in another case":    {`{"Flavor":"big"}`, "unsupported", []string{"/Flavor"}},
		"beside a patched":   {`{"name":"two","vips":[]}`, "unsupported", []string{"/vips"}},
		"beside a wrong one": {`{"name":5,"vips":[]}`, "invalid", []string{"/name", "/vips"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := c.send("PATCH", path, test.body, match...).want(t, 422, test.code)
			diff(t, "fields at fault", test.want, a.pointers())
			diff(t, "code of the field", "unsupported", a.problem.Errors[len(a.problem.Errors)-1].Code)
		})
	}
	now := must[*cloudv1.LoadBalancer](t)(c.client.LoadBalancer(t.Context(), lb.ID))
	diff(t, "after refused patches", lb, now)
	c.send("PATCH", path, `{"NAME":"two","from_the_future":1}`, match...).want(t, 200, "")
}

func TestTagsAreCountedTogether(t *testing.T) {
	c := newCloud(t)
	tags := func(prefix string, n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprint(prefix, i)] = ""
		}
		return m
	}
	s := tree("one")
	s.Tags = tags("a", 60)
	lb := c.createLB(s)
	path, match := "/v1/load-balancers/"+lb.ID, []string{"If-Match", `"` + lb.Revision + `"`}
	for name, a := range map[string]answer{
		"patch":    c.send("PATCH", path, map[string]any{"tags": tags("b", 5)}, match...),
		"adoption": c.send("POST", path+":adopt", map[string]any{"tags": tags("b", 5)}, match...),
	} {
		diff(t, "fields at fault, "+name, []string{"/tags"}, a.want(t, 422, "invalid").pointers())
	}
	exchanged := map[string]any{"a0": nil, "a1": nil, "b0": "", "b1": "", "b2": "", "b3": "", "b4": "", "b5": ""}
	patched := decode[cloudv1.LoadBalancer](
		t, c.send("PATCH", path, map[string]any{"tags": exchanged}, match...).want(t, 200, ""),
	)
	diff(t, "tags", 64, len(patched.Tags))
	c.send("POST", path+":adopt", map[string]any{"tags": map[string]string{"b0": ""}}, "If-Match", `"`+patched.Revision+`"`).
		want(t, 200, "")
}

func TestDryRunsTellNoRevision(t *testing.T) {
	c := newCloud(t)
	lb := c.createLB(tree("one"))
	group := must[*cloudv1.NodeGroup](t)(
		c.client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "g"}, cloudapi.WriteOptions{}),
	)
	lbPath, groupPath := "/v1/load-balancers/"+lb.ID, "/v1/node-groups/"+group.ID
	lbMatch, groupMatch := `"`+lb.Revision+`"`, `"`+group.Revision+`"`
	changed := tree("two")
	for name, a := range map[string]answer{
		"LB create":    c.send("POST", "/v1/load-balancers?dry_run=true", changed),
		"LB put":       c.send("PUT", lbPath+"?dry_run=true", changed, "If-Match", lbMatch),
		"LB patch":     c.send("PATCH", lbPath+"?dry_run=true", `{"name":"two"}`, "If-Match", lbMatch),
		"LB adopt":     c.send("POST", lbPath+":adopt?dry_run=true", `{"tags":{"a":"b"}}`, "If-Match", lbMatch),
		"group create": c.send("POST", "/v1/node-groups?dry_run=true", `{"name":"h"}`),
		"group put":    c.send("PUT", groupPath+"?dry_run=true", `{"name":"h"}`, "If-Match", groupMatch),
		"group patch": c.send("PATCH", groupPath+"/members?dry_run=true",
			cloudv1.MembersPatch{Upsert: []cloudv1.GroupMember{member("a", "10.0.0.11")}}, "If-Match", groupMatch),
		"stop":   c.send("POST", "/v1/instances/i-node-1:stop?dry_run=true", nil),
		"delete": c.send("DELETE", "/v1/instances/i-node-1?dry_run=true", nil),
	} {
		if a.status >= 300 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		diff(
			t, name+": ETag and revision", [2]string{}, [2]string{a.header.Get("ETag"), decode[cloudv1.Object](t, a).Revision},
		)
	}
	routes := cloudv1.RoutesBatch{Upsert: []cloudv1.RouteSpec{
		{Destination: "10.244.1.0/24", NextHop: cloudv1.NextHop{InstanceID: "i-node-1"}},
		{Destination: "10.244.1.0/24", NextHop: cloudv1.NextHop{InstanceID: "i-node-1"}},
	}}
	batch := decode[cloudv1.RoutesBatchResult](
		t, c.send("POST", "/v1/route-tables/rt-main/routes:batch?dry_run=true", routes).want(t, 200, ""),
	)
	for _, r := range batch.Results {
		diff(t, "revision of a route", "", r.Route.Revision)
	}
	// The dry run of a write without changes returns the present revision.
	same := c.send("PUT", lbPath+"?dry_run=true", tree("one"), "If-Match", lbMatch).want(t, 200, "")
	diff(t, "ETag of what stays", lbMatch, same.header.Get("ETag"))
}

func TestBodiesOfTreesMayBeLarge(t *testing.T) {
	c := newCloud(t)
	lb := c.createLB(tree("one"))
	body := func(bytes int) string {
		return `{"name":"two","scheme":"public","listeners":[],"pools":[],"from_the_future":"` +
			strings.Repeat("x", bytes) + `"}`
	}
	for bytes, want := range map[int][3]int{2 << 20: {204, 201, 200}, 8 << 20: {413, 413, 413}} {
		got := [3]int{
			c.send("POST", "/v1/load-balancers:validate", body(bytes)).status,
			c.send("POST", "/v1/load-balancers?dry_run=true", body(bytes)).status,
			c.send("PUT", "/v1/load-balancers/"+lb.ID+"?dry_run=true", body(bytes), "If-Match", `"`+lb.Revision+`"`).status,
		}
		diff(t, fmt.Sprintf("statuses of validation, creation and replacement with %d bytes", bytes), want, got)
	}
}
