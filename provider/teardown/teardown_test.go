package teardown_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/teardown"
	"quaymaster.dev/test/harness/cloud"
)

const (
	own     = "c1a5e000-0000-4000-8000-000000000001"
	foreign = "c1a5e000-0000-4000-8000-000000000002"
)

// tagged returns the tags of a cluster's object; a released one has none.
func tagged(cluster string) map[string]string {
	if cluster == "" {
		return map[string]string{}
	}
	return map[string]string{ownership.ClusterUID: cluster, "team": "shop"}
}

// stock creates a load balancer with a node group, and a route, for the cluster.
func stock(t *testing.T, c *cloud.Cloud, name, cluster, destination string, protected bool) {
	t.Helper()
	ctx := t.Context()
	group, err := c.Client.CreateNodeGroup(
		ctx, cloudv1.NodeGroupSpec{Name: name, Tags: tagged(cluster)}, cloudapi.WriteOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	_, job, err := c.Client.CreateLoadBalancer(ctx, cloudv1.LoadBalancerSpec{
		Name: name, Tags: tagged(cluster),
		LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme: "public", DeletionProtection: protected,
			Listeners: []cloudv1.Listener{{Key: "tcp/80", Protocol: "tcp", Port: 80, PoolKey: "tcp/80"}},
			Pools: []cloudv1.Pool{{
				Key: "tcp/80", Family: "ipv4", Protocol: "tcp", Algorithm: "round_robin", TargetPort: 30080, NodeGroupID: group.ID,
			}},
		},
	}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Client.WaitJob(ctx, job); err != nil {
		t.Fatal(err)
	}
	result, err := c.Client.BatchRoutes(ctx, "rt-main", cloudv1.RoutesBatch{Upsert: []cloudv1.RouteSpec{
		{Destination: destination, NextHop: cloudv1.NextHop{InstanceID: "i-node-1"}, Tags: tagged(cluster)},
	}}, cloudapi.WriteOptions{})
	if err != nil || result.Results[0].Error != nil {
		t.Fatalf("%v, %+v", err, result)
	}
}

// left returns all objects of the cloud, whatever their owner.
func left(t *testing.T, c *cloud.Cloud) []string {
	t.Helper()
	balancers, err := c.Client.ListLoadBalancers(t.Context(), cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := c.Client.ListNodeGroups(t.Context(), cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	routes, err := c.Client.ListRoutes(t.Context(), "rt-main", cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range balancers.Items {
		names = append(names, "lb "+o.Name)
	}
	for _, o := range groups.Items {
		names = append(names, "group "+o.Name)
	}
	for _, o := range routes.Items {
		names = append(names, "route "+o.Destination)
	}
	return names
}

func TestExecute(t *testing.T) {
	c := cloud.Start(t, 100*time.Millisecond)
	stock(t, c, "ours", own, "10.244.1.0/24", false)
	stock(t, c, "guarded", own, "10.244.2.0/24", true)
	stock(t, c, "theirs", foreign, "10.245.1.0/24", false)
	stock(t, c, "released", "", "10.246.1.0/24", false)

	run := func(wishes teardown.Wishes) []string {
		found, err := teardown.Take(t.Context(), c.Client, own)
		if err != nil {
			t.Fatal(err)
		}
		plan := teardown.Plan(found, wishes.Keep)
		var told []string
		for i, err := range teardown.Execute(t.Context(), c.Client, plan) {
			if err != nil {
				t.Errorf("%s %s: %v", plan[i].Kind, plan[i].Name, err)
			}
			if plan[i].Keep != "" {
				told = append(told, plan[i].Kind+" "+plan[i].Name)
			}
		}
		return told
	}
	others := []string{
		"lb theirs", "lb released", "group theirs", "group released", "route 10.245.1.0/24", "route 10.246.1.0/24",
	}
	sorted := cmp.Transformer("set", func(names []string) map[string]bool {
		set := map[string]bool{}
		for _, name := range names {
			set[name] = true
		}
		return set
	})

	if diff := cmp.Diff([]string{"load-balancer guarded", "node-group guarded"}, run(teardown.Wishes{})); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(append([]string{"lb guarded", "group guarded"}, others...), left(t, c), sorted); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if kept := run(teardown.Wishes{IncludeProtected: true}); len(kept) != 0 {
		t.Errorf("kept %v, want nothing", kept)
	}
	if diff := cmp.Diff(others, left(t, c), sorted); diff != "" {
		t.Errorf("left with protected ones included (-want +got):\n%s", diff)
	}
	c.Calls()
	run(teardown.Wishes{IncludeProtected: true})
	if writes := cloud.Writes(c.Calls()); len(writes) != 0 {
		t.Errorf("writes %v where nothing is left, want none", writes)
	}
}

// An object that is changed or given away after the plan was made is kept.
func TestConditions(t *testing.T) {
	c := cloud.Start(t, 0)
	stock(t, c, "ours", own, "10.244.1.0/24", false)
	found, err := teardown.Take(t.Context(), c.Client, own)
	if err != nil {
		t.Fatal(err)
	}
	plan := teardown.Plan(found, teardown.Wishes{}.Keep)
	stranger := foreign
	lb := found.LoadBalancers[0]
	if _, _, err := c.Client.PatchLoadBalancer(t.Context(), lb.ID, cloudv1.LoadBalancerPatch{
		Tags: map[string]*string{ownership.ClusterUID: &stranger},
	}, cloudapi.WriteOptions{IfMatch: lb.Revision}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.BatchRoutes(t.Context(), "rt-main", cloudv1.RoutesBatch{Upsert: []cloudv1.RouteSpec{
		{Destination: "10.244.1.0/24", NextHop: cloudv1.NextHop{InstanceID: "i-node-2"}, Tags: tagged(own)},
	}}, cloudapi.WriteOptions{IfTags: map[string]string{ownership.ClusterUID: own}}); err != nil {
		t.Fatal(err)
	}
	c.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if tags := r.Header.Get(cloudv1.HeaderIfTags); r.Method != http.MethodGet && !strings.Contains(tags, own) {
			t.Errorf("%s %s requires the tags %q", r.Method, r.URL.Path, tags)
		}
		return false
	})
	failed := teardown.Execute(t.Context(), c.Client, plan)
	for i, codes := range [][]string{
		{cloudv1.CodeStaleRevision, cloudv1.CodeTagsMismatch}, // another cluster's
		{cloudv1.CodeConflict},                                // still in use
		{cloudv1.CodeConflict},                                // leads elsewhere
	} {
		if !cloudapi.HasCode(failed[i], codes...) {
			t.Errorf("%s: error %v, want one of %v", plan[i].Kind, failed[i], codes)
		}
	}
	if names := left(t, c); len(names) != 3 {
		t.Errorf("left %v, want all", names)
	}
}

// TestTakeFromACloudThatIgnoresTags: what others own is not part of the inventory.
func TestTakeFromACloudThatIgnoresTags(t *testing.T) {
	c := cloud.Start(t, 0)
	stock(t, c, "ours", own, "10.244.1.0/24", false)
	stock(t, c, "theirs", foreign, "10.245.1.0/24", false)
	c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		query := r.URL.Query()
		query.Del("tag")
		r.URL.RawQuery = query.Encode()
		c.Serve(w, r)
		return true
	})
	found, err := teardown.Take(t.Context(), c.Client, own)
	if err != nil || len(found.LoadBalancers) != 1 || len(found.NodeGroups) != 1 || len(found.Routes) != 1 {
		t.Errorf("found %+v, %v, want one of each", found, err)
	}
}

func TestTakeFails(t *testing.T) {
	for name, tc := range map[string]struct {
		path, body, want string
		status           int
	}{
		"degraded": {
			path: "/v1/meta", status: http.StatusOK, want: "the cloud is degraded",
			body: `{"api_version": "1.0.0", "capabilities": [], "status": "degraded", "limits": {}, "server_time": "2026-01-01T00:00:00Z"}`,
		},
		"no list":     {path: "/v1/node-groups", status: http.StatusBadGateway, body: "oops", want: "list node groups: "},
		"half a list": {path: "/v1/route-tables", status: http.StatusOK, body: `{"items": [], "revision": "1", "complete": false}`, want: "incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			c := cloud.Start(t, 0)
			c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != tc.path {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body))
				return true
			})
			if _, err := teardown.Take(t.Context(), c.Client, own); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
