package edge_test

import (
	"fmt"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// From the write to the API to the first answer, with many listeners on the edge.
func TestTimeToTraffic(t *testing.T) {
	t.Parallel()
	// How fast a busy machine is proves nothing: bounded runs only show that it does not take for ever.
	others, listeners, tries, limit := 10, 2, 10, patience
	if *full {
		others, listeners, tries, limit = 100, 10, 100, 2*time.Second
	}
	w := newWorld(t, 1, 2)
	for i := range others {
		s := w.spec(fmt.Sprintf("other-%d", i), cloudv1.ProtocolTCP, 80)
		for port := 81; port < 80+listeners; port++ {
			protocol := cloudv1.ProtocolTCP
			if port%2 == 1 {
				protocol = cloudv1.ProtocolHTTP
			}
			added := w.spec("", protocol, int32(port))
			s.Listeners = append(s.Listeners, added.Listeners...)
			s.Pools = append(s.Pools, added.Pools...)
		}
		_, _, err := w.cloud.CreateLoadBalancer(w.Context(), s, cloudapi.WriteOptions{})
		w.must(err)
	}
	var direct, proxied []time.Duration
	for i := range tries {
		for name, list := range map[string]*[]time.Duration{cloudv1.VIPModeVIP: &direct, cloudv1.VIPModeProxy: &proxied} {
			start := time.Now()
			lb, at := w.create(w.spec(fmt.Sprintf("%s-%d", name, i), cloudv1.ProtocolTCP, 80, mode(name)))
			w.eventually("an answer", func() bool {
				_, _, err := w.ask("tcp", at)
				return err == nil
			})
			*list = append(*list, time.Since(start))
			_, err := w.cloud.DeleteLoadBalancer(w.Context(), lb.ID, cloudapi.WriteOptions{IfMatch: lb.Revision})
			w.must(err)
		}
	}
	for name, list := range map[string][]time.Duration{"direct": direct, "proxy": proxied} {
		p50, p99 := percentile(list, 0.5), percentile(list, 0.99)
		t.Logf("%s, %d listeners: p50 %s, p99 %s", name, listeners*others, p50.Round(time.Millisecond), p99.Round(time.Millisecond))
		if p99 > limit {
			t.Errorf("%s: p99 %s, want at most %s", name, p99, limit)
		}
	}
}
