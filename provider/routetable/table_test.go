package routetable_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/route"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/routetable"
	"quaymaster.dev/test/harness/cloud"
)

func newTable(c *cloud.Cloud) *routetable.Table {
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "cluster"}})
	cluster := ownership.NewCluster(client.CoreV1())
	return routetable.New(c.Client, mirror.New(mirror.Options{Cloud: c.Client, Cluster: cluster}).Routes, cluster, "rt-main")
}

func changes(n int) []route.Change {
	all := make([]route.Change, n)
	for i := range all {
		destination := netip.MustParsePrefix(fmt.Sprintf("10.244.%d.%d/28", i/16, i%16*16))
		all[i] = route.Change{Route: route.Route{Destination: destination, Hop: route.Hop{InstanceID: "i-node-1"}}}
	}
	return all
}

func TestInstanceOf(t *testing.T) {
	for id, want := range map[string]string{"mycloud://i-1": "i-1", "aws:///eu/i-1": "", "": "", "mycloud://": ""} {
		if got, ours := routetable.InstanceOf(id); got != want || ours != (want != "") {
			t.Errorf("InstanceOf(%q) = %q, %t; want %q", id, got, ours, want)
		}
	}
}

// A change for which the cloud rejects whole requests fails alone.
func TestRejectedRequest(t *testing.T) {
	c := cloud.Start(t, 0)
	table, all := newTable(c), changes(600)
	poison := 123
	c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte(all[poison].Destination.String())) {
			return false
		}
		cloud.Problem(w, http.StatusUnprocessableEntity, "invalid")
		return true
	})
	for i, err := range table.Change(t.Context(), all) {
		if (err != nil) != (i == poison) {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if calls := len(c.Calls()); calls > 20 {
		t.Errorf("%d calls, want at most 20", calls)
	}
	routes, _, _, err := table.List(t.Context(), "")
	if err != nil || len(routes) != len(all)-1 {
		t.Errorf("%d routes, %v; want %d", len(routes), err, len(all)-1)
	}
}

// If the cloud rejects everything, the number of requests is bounded.
func TestRejectedRequests(t *testing.T) {
	c := cloud.Start(t, 0)
	c.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		cloud.Problem(w, http.StatusBadRequest, "invalid")
		return true
	})
	for i, err := range newTable(c).Change(t.Context(), changes(1000)) {
		if err == nil {
			t.Errorf("change %d: no error", i)
		}
	}
	if calls := len(c.Calls()); calls > 40 {
		t.Errorf("%d calls, want at most 40", calls)
	}
}

// A cloud that does not process requests is not asked again for each batch.
func TestUnavailable(t *testing.T) {
	c := cloud.Start(t, 0)
	c.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		cloud.Problem(w, http.StatusServiceUnavailable, "unavailable")
		return true
	})
	for i, err := range newTable(c).Change(t.Context(), changes(2000)) {
		if err == nil {
			t.Errorf("change %d: no error", i)
		}
	}
	if calls := c.Calls(); len(calls) != 1 {
		t.Errorf("calls %v, want one", calls)
	}
}

// Routes of others are neither written nor removed, not even if they have our hop.
func TestForeignRoute(t *testing.T) {
	c := cloud.Start(t, 0)
	foreign := changes(1)[0]
	result, err := c.Client.BatchRoutes(t.Context(), "rt-main", cloudv1.RoutesBatch{Upsert: []cloudv1.RouteSpec{
		{Destination: foreign.Destination.String(), NextHop: cloudv1.NextHop(foreign.Hop)},
	}}, cloudapi.WriteOptions{})
	if err != nil || result.Results[0].Error != nil {
		t.Fatal(result, err)
	}
	for _, change := range []route.Change{foreign, {Route: foreign.Route, Remove: true}} {
		err := newTable(c).Change(t.Context(), []route.Change{change})[0]
		if refused := (*route.RefusedError)(nil); !errors.As(err, &refused) {
			t.Errorf("remove: %t: error %v, want a refusal", change.Remove, err)
		}
	}
}

// A route that is gone, or that leads elsewhere by now, needs no removal.
func TestRemove(t *testing.T) {
	c := cloud.Start(t, 0)
	table, all := newTable(c), changes(2)
	table.Change(t.Context(), all)
	removals := []route.Change{
		{Route: all[0].Route, Remove: true}, {Route: all[1].Route, Remove: true}, {Route: changes(3)[2].Route, Remove: true},
	}
	removals[1].Hop.InstanceID = "i-node-2"
	for i, err := range table.Change(t.Context(), removals) {
		if err != nil {
			t.Errorf("removal %d: %v", i, err)
		}
	}
	routes, _, _, err := table.List(t.Context(), "")
	if err != nil || len(routes) != 1 || routes[0] != all[1].Route {
		t.Errorf("routes %v, %v; want %v", routes, err, all[1].Route)
	}
}
