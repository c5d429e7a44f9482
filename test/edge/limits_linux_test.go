package edge_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// tolerance is how far the admitted rate may be from max QPS. On a busy machine, the client stalls, and what it has not
// asked for in a second is lost: bounded runs allow less than the limit, and measure a lower rate again.
const tolerance, stalls, attempts = 0.02, 0.15, 3

// keeps fails the test unless the measured rate is that of a limit.
func keeps(t *testing.T, limit int, measure func() float64) {
	t.Helper()
	least := 1 - tolerance
	if !*full {
		least = 1 - stalls
	}
	got := 0.0
	for range attempts {
		got = measure()
		t.Logf("%.1f per second of %d, offered %d", got, limit, offered(limit))
		if *full || got >= least*float64(limit) {
			break
		}
	}
	if got > (1+tolerance)*float64(limit) || got < least*float64(limit) {
		t.Errorf("%.1f per second, want %d", got, limit)
	}
}

// limits returns the values of max QPS that are tested.
func limits() []int {
	if !*full {
		return []int{100}
	}
	return []int{100, 2000}
}

// offered returns how many connections per second are offered to a limit.
func offered(limit int) int {
	if limit > 1000 {
		return limit * 3 / 2
	}
	return limit * 2
}

// overload returns how long a limit is exceeded before the rate is measured.
func overload() time.Duration {
	if !*full {
		return 3 * time.Second
	}
	return 10 * time.Second
}

// Max QPS holds however much is offered, and goes on to admit what it should after seconds of overload.
func TestMaxQPS(t *testing.T) {
	w := newWorld(t, 1, 2)
	client := w.httpClient()
	for _, limit := range limits() {
		limited := listeners(func(l *cloudv1.Listener) { l.MaxQPS = limit })
		_, direct := w.create(w.spec(fmt.Sprintf("direct-%d", limit), cloudv1.ProtocolTCP, 80, limited))
		_, proxy := w.create(w.spec(fmt.Sprintf("proxy-%d", limit), cloudv1.ProtocolTCP, 80, limited, mode(cloudv1.VIPModeProxy)))
		_, web := w.create(w.spec(fmt.Sprintf("web-%d", limit), cloudv1.ProtocolHTTP, 80, limited, mode(cloudv1.VIPModeProxy)))
		const duration = 5 * time.Second
		for name, measure := range map[string]func() float64{
			"direct": func() float64 { return w.connected(direct, offered(limit), overload(), duration) },
			"proxy":  func() float64 { return w.connected(proxy, offered(limit), overload(), duration) },
			"http": func() float64 {
				return admitted(offered(limit), overload(), duration, func() bool {
					status, _, err := get(client, "http://"+web.String()+"/")
					return err == nil && status == http.StatusOK
				})
			},
		} {
			t.Run(fmt.Sprintf("%s, %d", name, limit), func(t *testing.T) {
				keeps(t, limit, measure)
			})
		}
	}
}
