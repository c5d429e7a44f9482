package safety

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// garble makes the cloud return one load balancer with a member that clients cannot decode, wherever it is in a response. It
// counts the writes to that load balancer.
func (w *world) garble(id string) *atomic.Int64 {
	writes := &atomic.Int64{}
	w.setFaults(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			if strings.Contains(r.URL.Path, id) {
				writes.Add(1)
			}
			return false
		}
		recorded := httptest.NewRecorder()
		w.serve(recorded, r)
		body := recorded.Body.Bytes()
		var value any
		if json.Unmarshal(body, &value) == nil && garbled(value, id) {
			body, _ = json.Marshal(value)
		}
		maps.Copy(rw.Header(), recorded.Header())
		rw.Header().Del("Content-Length")
		rw.WriteHeader(recorded.Code)
		_, _ = rw.Write(body)
		return true
	})
	return writes
}

// garbled changes the load balancer wherever a value contains it, and reports whether it does.
func garbled(value any, id string) (found bool) {
	switch value := value.(type) {
	case map[string]any:
		if _, tree := value["listeners"]; tree && value["id"] == id {
			value["listeners"] = "many"
			return true
		}
		for _, member := range value {
			found = garbled(member, id) || found
		}
	case []any:
		for _, element := range value {
			found = garbled(element, id) || found
		}
	}
	return found
}

// TestUndecodable: a load balancer that this version cannot decode is neither changed, replaced nor deleted, its Service says
// so, and no other Service notices. A version that can decode it goes on.
func TestUndecodable(t *testing.T) {
	for name, restart := range map[string]bool{"in a change": false, "in the list": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { undecodable(t, name, restart) }) })
	}
}

func undecodable(t *testing.T, name string, restart bool) {
	t.Helper()
	w := newCrowdedWorld(t)
	before := w.balancers()
	var id string
	for id = range before {
	}
	if restart {
		w.stop()
	}
	writes := w.garble(id)
	if restart {
		w.start()
	} else {
		time.Sleep(time.Minute) // the request for changes that the cloud holds is not garbled
		w.meddle()
	}
	time.Sleep(time.Minute)
	w.updateService("victim", func(svc *corev1.Service) {
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, annotation+"listener-maxqps", "9")
	})
	time.Sleep(10 * time.Minute)
	w.service("calm", nil)
	published := took(func() bool { return len(w.get("calm").Status.LoadBalancer.Ingress) > 0 })
	figure(t, "while a load balancer cannot be decoded %s, another service is published after %.1f s", name, published.Seconds())
	if published > time.Minute {
		t.Errorf("another service is published after %s, want at most a minute", published)
	}
	if c := w.configured("victim"); c == nil || c.Reason != "LoadBalancerUnreadable" || !strings.Contains(c.Message, id) {
		t.Errorf("condition %+v, want LoadBalancerUnreadable", c)
	}
	w.deleteService("victim")
	time.Sleep(time.Hour)
	if now := w.balancers(); writes.Load() > 0 || now[id] != before[id] || len(now) != 2 {
		t.Errorf("%d writes; load balancers %v, want those of both services", writes.Load(), now)
	}
	w.stop()
	w.setFaults(nil) // the next version can decode it
	w.start()
	w.settle(0)
	if now := w.balancers(); len(now) != 1 || now[id] != "" {
		t.Errorf("load balancers %v, want that of the other service", now)
	}
	w.stop()
	for _, v := range w.violations {
		t.Error(v)
	}
}
