package mirror

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/test/harness/cloud"
)

// TestHostileFeed: whatever the cloud, or a proxy, answers to requests for changes, it gets few requests, and its lists
// are read from time to time.
func TestHostileFeed(t *testing.T) {
	n := 0
	page := func(revision string, more bool) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", cloudv1.MediaTypeJSON)
			fmt.Fprintf(w, `{"revision":%q,"items":[],"more":%t}`, revision, more)
		}
	}
	for name, tc := range map[string]struct {
		answer func(http.ResponseWriter)
		// calls are the requests that five minutes may cost, and lists those of load balancers among them.
		calls, lists int
	}{
		"always the same page": {page("1", true), 90, 18},
		"always another page": {func(w http.ResponseWriter) {
			n++
			page(fmt.Sprint(n%2), true)(w)
		}, 410, 1},
		"no change, but no wait": {page("1", false), 310, 1},
		"never knows the revision": {func(w http.ResponseWriter) {
			cloud.Problem(w, http.StatusGone, cloudv1.CodePageTokenExpired)
		}, 70, 17},
		"fails": {func(w http.ResponseWriter) {
			cloud.Problem(w, http.StatusInternalServerError, cloudv1.CodeInternal)
		}, 40, 10},
	} {
		t.Run(name, func(t *testing.T) {
			c := cloud.Start(t, 0)
			c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/v1/changes" {
					tc.answer(w)
					return true
				}
				return false
			})
			m, clock, _ := steps(t, c)
			var calls []string
			for end := clock.Now().Add(5 * time.Minute); clock.Now().Before(end); {
				clock.Step(max(0, m.round(t.Context())))
				if calls = append(calls, c.Calls()...); len(calls) > tc.calls {
					t.Fatalf("%d requests, %s before the end", len(calls), end.Sub(clock.Now()))
				}
			}
			lists := 0
			for _, call := range calls {
				if call == "GET /v1/load-balancers" {
					lists++
				}
			}
			if lists == 0 || lists > tc.lists {
				t.Errorf("%d lists in %d requests", lists, len(calls))
			}
			t.Logf("%d requests, %d lists", len(calls), lists)
		})
	}
}

// TestFeedFails: while the cloud answers everything but requests for changes, a load balancer that changes is noticed.
func TestFeedFails(t *testing.T) {
	c := cloud.Start(t, 0)
	m, clock, _ := steps(t, c)
	round := func() { clock.Step(max(0, m.round(t.Context()))) }
	round()
	c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v1/changes" {
			cloud.Problem(w, http.StatusBadGateway, cloudv1.CodeUnavailable)
			return true
		}
		return false
	})
	lb := balancer(t, c)
	for end := clock.Now().Add(2 * time.Minute); clock.Now().Before(end); {
		round()
	}
	if m.LoadBalancers.Get(lb.ID) == nil {
		t.Errorf("the load balancer is unknown after two minutes; last error: %v", m.Err())
	}
}
