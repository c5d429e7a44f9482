package dlb_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/provider/orphans"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/builder"
)

// TestOrphans: load balancers without a Service are reported once two looks have found them, and nothing is written.
func TestOrphans(t *testing.T) {
	f := start(t, 0)
	reporter := orphans.NewReporter(orphans.ReporterOptions{
		Cluster: f.options.Cluster, Mirror: f.options.Mirror, Services: f.options.Services, Owned: f.Owned, Recorder: f.events,
	})
	look := func(want map[string]int, events int) {
		t.Helper()
		f.sync()
		f.cloud.Calls()
		reporter.Look(t.Context())
		if calls := f.cloud.Calls(); len(calls) > 0 {
			t.Errorf("calls of the cloud: %v", calls)
		}
		text := "# HELP quaymaster_load_balancer_orphans Load balancers with the tag of this cluster that no Service uses, by " +
			"the reason why they must not be deleted, or unused if they may.\n# TYPE quaymaster_load_balancer_orphans gauge\n"
		for _, reason := range slices.Sorted(slices.Values(orphans.Reasons())) {
			text += fmt.Sprintf("quaymaster_load_balancer_orphans{reason=%q} %d\n", reason, want[reason])
		}
		if err := testutil.CollectAndCompare(reporter, strings.NewReader(text)); err != nil {
			t.Error(err)
		}
		if got := len(f.events.Events); got != events {
			t.Errorf("%d events, want %d", got, events)
		}
		for range len(f.events.Events) {
			if event := <-f.events.Events; !strings.Contains(event, "quayctl orphans") {
				t.Error(event)
			}
		}
	}
	one, two := builder.Service(), named("two")
	f.publish(one)
	lb := f.publish(two)
	for range len(f.events.Events) {
		<-f.events.Events
	}
	look(nil, 0)
	// A Service that only the cache lacks for a moment.
	if err := f.seen.Delete(two); err != nil {
		t.Fatal(err)
	}
	look(nil, 0)
	f.see(two)
	look(nil, 0)

	if err := f.client.CoreV1().Services(two.Namespace).Delete(t.Context(), two.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.seen.Delete(two); err != nil {
		t.Fatal(err)
	}
	look(nil, 0)
	look(map[string]int{orphans.Unused: 1}, 1)
	value := offer
	f.tag(lb, ownership.Adopt, &value)
	look(map[string]int{orphans.Adopted: 1}, 0)
	f.lose(lb)
	look(nil, 0)
}
