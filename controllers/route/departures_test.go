package route

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

// Only a deletion that the API server reports explains the removal of a route; absence from a list does not.
func TestDepartures(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	c, err := New(Options{
		Nodes:      informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Nodes(),
		InstanceOf: func(id string) (string, bool) { return id, id != "foreign" },
		Clock:      clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	of := func(providerID string) *corev1.Node {
		return &corev1.Node{Spec: corev1.NodeSpec{ProviderID: providerID}}
	}
	c.depart(of("deleted"))
	c.depart(of("foreign"))
	c.depart(cache.DeletedFinalStateUnknown{Key: "absent", Obj: of("absent")})
	for instance, want := range map[string]bool{"deleted": true, "foreign": false, "absent": false} {
		if got := c.explained(removal{to("10.244.1.0/24", instance), causeNoNode}); got != want {
			t.Errorf("removal of the route to %s explained: %t, want %t", instance, got, want)
		}
	}
	c.depart(of("back"))
	c.touch(of("back"))
	if _, ok := c.departures.Get("back"); ok {
		t.Error("the deletion of a node that is back is remembered")
	}
	clock.Step(departureKept + time.Second)
	c.depart(of("another"))
	if _, ok := c.departures.Get("deleted"); ok {
		t.Error("a deletion is remembered for longer than needed")
	}
}
