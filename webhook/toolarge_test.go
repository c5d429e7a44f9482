package webhook_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/admission"
)

// managed returns managedFields as API servers send them if an author has put many characters into the name of a field
// that JSON needs six bytes for.
func managed(n int) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{
		Manager: "kubectl", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:` + strings.Repeat("<", n) + `":{}}`),
	}}
}

// causes returns the field and message of each cause of a denial.
func causes(response *admissionv1.AdmissionResponse) (all []string) {
	if response == nil || response.Result == nil || response.Result.Details == nil {
		return nil
	}
	for _, cause := range response.Result.Details.Causes {
		all = append(all, cause.Field+": "+cause.Message)
	}
	return all
}

// No author can make a request so large that it has no answer. What is large and not of interest costs nothing.
func TestLargeObjectsAreAnswered(t *testing.T) {
	const size = 700_000
	invalid := builder.Service(builder.DLB("scheduler", "fastest"))
	padded := invalid.DeepCopy()
	padded.ManagedFields = managed(size)
	old := builder.Service()
	old.ManagedFields = managed(size)
	manyPorts := builder.Service()
	for i := range 28_000 {
		port := manyPorts.Spec.Ports[0]
		port.Name, port.Port = fmt.Sprintf("p-%d", i), int32(i+1)
		manyPorts.Spec.Ports = append(manyPorts.Spec.Ports, port)
	}
	ports := len(manyPorts.Spec.Ports)
	changed := manyPorts.DeepCopy()
	changed.Spec.Ports[ports-1].Name = "other"
	deleted := manyPorts.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{}
	annotated := builder.Service(builder.Annotation("example.com/a", strings.Repeat("<", 256<<10)))
	ranges := builder.Service()
	for i := range 100_000 {
		ranges.Spec.LoadBalancerSourceRanges = append(ranges.Spec.LoadBalancerSourceRanges, fmt.Sprintf("10.%d.%d.0/24", i>>8&255, i&255))
	}
	claim := func(quantity string) runtime.Object {
		pvc := builder.PersistentVolumeClaim(builder.Request(quantity))
		pvc.ManagedFields = managed(size)
		return pvc
	}
	limits := namespacePolicy()
	limits.ManagedFields = managed(size)
	limits.Spec.Rules[1].Pattern = "("
	const tooManyPorts = `spec.ports: Too many: "": must have at most 3000 ports; has 28001`
	for name, test := range map[string]struct {
		server      string
		old, object runtime.Object
		cause       string
	}{
		"managedFields":                   {"validate-service", nil, padded, `must be one of`},
		"managedFields, updated":          {"validate-service", old, padded, `must be one of`},
		"managedFields of a valid object": {"validate-service", old, old, ""},
		"ports":                           {"validate-service", nil, manyPorts, tooManyPorts},
		"ports, changed":                  {"validate-service", manyPorts, changed, tooManyPorts},
		"ports, unchanged":                {"validate-service", manyPorts, manyPorts, ""},
		"ports, being deleted":            {"validate-service", manyPorts, deleted, ""},
		"source ranges":                   {"validate-service", nil, ranges, "must have at most 3000 source ranges; has 100000"},
		"annotations":                     {"validate-service", nil, annotated, "metadata.annotations: Too long: must have at most 262144 bytes in total"},
		"annotations, mutated":            {"mutate-service", nil, annotated, "metadata.annotations: Too long: must have at most 262144 bytes in total"},
		"claim":                           {"validate-persistentvolumeclaim", claim("10Gi"), claim("9Ti"), "must be at most"},
		"policy":                          {"validate-loadbalancerpolicy", nil, limits, "spec.rules[1].pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range newServers(t) {
				if s.name != test.server {
					continue
				}
				req := &admissionv1.AdmissionRequest{
					UID: "u", Resource: s.resource, Operation: admissionv1.Create, Name: "web", Namespace: "shop",
					Object: runtime.RawExtension{Raw: marshal(t, test.object)},
				}
				if test.old != nil {
					req.Operation, req.OldObject.Raw = admissionv1.Update, marshal(t, test.old)
				}
				response := s.check(t, req, admission.Encode(t, req))
				if response == nil {
					w := httptest.NewRecorder()
					s.handler.ServeHTTP(w, post(string(admission.Encode(t, req))))
					t.Fatalf("status %d: %s", w.Code, w.Body)
				}
				got := causes(response)
				if response == nil || response.Allowed != (test.cause == "") || !strings.Contains(strings.Join(got, "\n"), test.cause) {
					t.Errorf("got %+v, causes %q", response, got)
				}
			}
		})
	}
}

// A request that is more than any API server sends is answered if it is a request at all, and a deletion is never denied.
func TestExcess(t *testing.T) {
	huge := `[` + strings.Repeat(`{"port":1},`, 200_000) + `{}]`
	s := newServers(t)[1]
	for operation, allowed := range map[string]bool{"CREATE": false, "UPDATE": false, "DELETE": true} {
		for meta, deleted := range map[string]bool{`{"name":"web"}`: false, `{"deletionTimestamp":"2026-01-01T00:00:00Z"}`: true} {
			object := `{"apiVersion":"v1","kind":"Service","metadata":` + meta + `,"spec":{"ports":` + huge + `}}`
			body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",` +
				`"resource":{"group":"","version":"v1","resource":"services"},"operation":"` + operation + `","object":` + object + `}}`
			if !json.Valid([]byte(body)) {
				t.Fatal("test is wrong")
			}
			response := s.post(t, []byte(body))
			if response == nil || response.UID != "u" || response.Allowed != (allowed || deleted) {
				t.Fatalf("%s of %s: %+v", operation, meta, response)
			}
			if got := causes(response); !response.Allowed && (len(got) != 1 || !strings.HasPrefix(got[0], "spec.ports: ")) {
				t.Errorf("causes %q", got)
			}
		}
	}
	if response := s.post(t, []byte(`{"request":{"object":{"spec":{"ports":`+huge+`}}}}`)); response != nil {
		t.Errorf("a body that is not a request got %+v", response)
	}
}

// A quantity of a few bytes must not occupy a processor for seconds.
func TestQuantitiesAreBounded(t *testing.T) {
	for _, s := range newServers(t) {
		if s.kind.Kind != "PersistentVolumeClaim" {
			continue
		}
		for _, quantity := range []string{`"1e-300000000"`, `1e300000000`, `"` + strings.Repeat("9", 4<<20) + `"`, "\"\u00a01e-300000000\"", `"1e300000000 "`} {
			object := `{"apiVersion":"v1","kind":"PersistentVolumeClaim","spec":{"resources":{"requests":{"storage":` + quantity + `}}},` +
				`"status":{"capacity":{"storage":` + quantity + `}}}`
			req := &admissionv1.AdmissionRequest{
				UID: "u", Resource: s.resource, Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: []byte(object)},
				OldObject: runtime.RawExtension{Raw: []byte(object)},
			}
			if response := s.post(t, admission.Encode(t, req)); response != nil {
				t.Errorf("%s: %.30s: %+v", s.name, quantity, response)
			}
		}
	}
}
