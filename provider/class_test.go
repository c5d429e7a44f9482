package provider_test

import (
	"net/http"
	"testing"

	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/test/cloud"
)

// Whether a machine exists is still read when the budget is too short for other reads.
func TestExistenceHasAReserve(t *testing.T) {
	c := cloud.Start(t, 0)
	v2 := instancesOf(t, c)
	c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		// Ten requests at once, but other clients have left only four, of which half are ours.
		w.Header().Set("RateLimit-Policy", `"read";q=100;w=60`)
		w.Header().Set("RateLimit", `"read";r=4`)
		c.Serve(w, r)
		return true
	})
	if _, err := c.Client.Meta(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.Zones(t.Context(), cloudapi.ListOptions{}); cloudapi.RetryAfter(err) == 0 {
		t.Errorf("another read: %v, want one that is postponed", err)
	}
	if exists, err := v2.InstanceExists(t.Context(), node("node-1", "mycloud://i-node-1")); !exists || err != nil {
		t.Errorf("InstanceExists = %t, %v", exists, err)
	}
}
