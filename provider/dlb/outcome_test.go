package dlb_test

import (
	"encoding/json"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/test/builder"
)

// The ports whose listeners the cloud rejects are named in what the Service publishes, beside its address.
func TestPortErrors(t *testing.T) {
	f := start(t, 0)
	ports := builder.Ports(builder.Port("web", corev1.ProtocolTCP, 80), builder.Port("tls", corev1.ProtocolTCP, 443))
	svc := builder.Service(ports)
	lb := f.publish(svc)
	f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		w.Header().Set("Content-Type", cloudv1.MediaTypeProblem)
		w.WriteHeader(http.StatusUnprocessableEntity)
		return json.NewEncoder(w).Encode(cloudv1.Problem{
			Status: http.StatusUnprocessableEntity, Code: cloudv1.CodeInvalid,
			Errors: []cloudv1.ProblemField{{Pointer: "/listeners/1/max_qps", Code: "invalid", Detail: "too much"}},
		}) == nil
	})
	builder.DLB("listener-maxqps", "9")(svc)
	state, err := f.Ensure(t.Context(), f.put(svc))
	if err == nil || state.Published == nil || state.Published.Ingress[0].IP != lb.VIPs[0].Address {
		t.Fatalf("state %+v, error %v", state, err)
	}
	got := state.Published.Ingress[0].Ports
	if len(got) != 2 || got[0].Error != nil || got[1].Error == nil || *got[1].Error != "quaymaster.dev/RefusedByCloud" {
		t.Errorf("ports %+v", got)
	}
	f.cloud.Intercept(nil)
	f.pass(60)
	if state, err = f.Ensure(t.Context(), f.stored(svc)); err != nil || len(state.Published.Ingress[0].Ports) != 0 {
		t.Errorf("state %+v, error %v; want no ports", state, err)
	}
}

// What a newer cloud has added to load balancers survives our writes.
func TestUnknownMembersSurvive(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	lb := f.publish(svc)
	lb.Revision, lb.Unknown = lb.Revision+"0", json.RawMessage(`{"color":"red"}`)
	f.options.Mirror.LoadBalancers.Put(t.Context(), &lb)
	var sent map[string]any
	f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", cloudv1.MediaTypeJSON)
		return json.NewEncoder(w).Encode(lb) == nil
	})
	builder.DLB("listener-maxqps", "9")(svc)
	_, _ = f.Ensure(t.Context(), f.put(svc))
	if sent["color"] != "red" {
		t.Errorf("sent %v, want what the cloud has added", sent)
	}
}
