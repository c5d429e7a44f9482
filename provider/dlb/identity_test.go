package dlb_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/cloud"
)

// publish ensures the Service's load balancer and stores what is published, as the service controller does.
func (f *fixture) publish(svc *corev1.Service) cloudv1.LoadBalancer {
	f.t.Helper()
	status := f.mustEnsure(svc)
	f.edit(svc, func(s *corev1.Service) { s.Status.LoadBalancer = *status })
	for _, lb := range f.all() {
		if lb.Tags[ownership.ServiceUID] == string(svc.UID) {
			return lb
		}
	}
	f.t.Fatalf("no load balancer of %s", svc.Name)
	return cloudv1.LoadBalancer{}
}

// lose deletes a load balancer in the cloud.
func (f *fixture) lose(lb cloudv1.LoadBalancer) {
	f.t.Helper()
	now, err := f.cloud.Client.LoadBalancer(f.t.Context(), lb.ID)
	if err == nil {
		_, err = f.cloud.Client.DeleteLoadBalancer(f.t.Context(), lb.ID, cloudapi.WriteOptions{IfMatch: now.Revision})
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) tag(lb cloudv1.LoadBalancer, key string, value *string) {
	f.t.Helper()
	now, err := f.cloud.Client.LoadBalancer(f.t.Context(), lb.ID)
	if err == nil {
		_, _, err = f.cloud.Client.PatchLoadBalancer(f.t.Context(), lb.ID,
			cloudv1.LoadBalancerPatch{Tags: map[string]*string{key: value}}, cloudapi.WriteOptions{IfMatch: now.Revision})
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// elsewhere makes the Balancer ask another, empty cloud.
func (f *fixture) elsewhere() {
	f.t.Helper()
	other := cloud.Start(f.t, 0)
	f.cloud, f.options.Cloud = other, other.Client
	f.options.Mirror = f.mirror(other, f.options.Cluster)
	f.restart()
	f.sync()
}

func (f *fixture) expectNoWrites(what string) {
	f.t.Helper()
	if writes := cloud.Writes(f.cloud.Calls()); len(writes) > 0 {
		f.t.Errorf("%s: writes %v, want none", what, writes)
	}
}

// The record is returned with the response to the creation, so that it can be stored before anything is published.
func TestRecordBeforePublication(t *testing.T) {
	f := start(t, 0)
	svc := f.put(builder.Service())
	state, err := f.Ensure(t.Context(), svc)
	if err != nil {
		t.Fatal(err)
	}
	lb := f.only()
	var record struct {
		ID        string
		Addresses []string
	}
	if err := json.Unmarshal([]byte(state.Record), &record); err != nil || record.ID != lb.ID ||
		len(record.Addresses) != 1 || record.Addresses[0] != state.Published.Ingress[0].IP {
		t.Errorf("record %s, published %v, want both of %s", state.Record, state.Published, lb.ID)
	}
	f.client.ClearActions()
	f.mustEnsure(svc)
	if got := f.stored(svc).Annotations[service.AnnotationRecord]; got != state.Record {
		t.Errorf("stored %q, want %q", got, state.Record)
	}
	if len(f.client.Actions()) == 0 {
		t.Error("nothing was stored before the address was returned")
	}
	f.client.PrependReactor("patch", "services", refuseAll)
	f.forget(svc)
	if status, err := f.ensure(svc); err == nil || status != nil {
		t.Errorf("status %v, error %v; want nothing to publish without a record", status, err)
	}
}

// Another load balancer is created only after the cloud has said for a minute that the recorded one is absent.
func TestRecreate(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	seen := map[string]bool{}
	for range 3 {
		lb := f.publish(svc)
		if seen[lb.ID] {
			t.Fatalf("load balancer %s came back", lb.ID)
		}
		seen[lb.ID] = true
		f.lose(lb)
		f.pass(5) // the state of the cloud is asked for again
		for try := range 2 {
			f.cloud.Calls()
			if _, err := f.ensure(svc); err == nil {
				t.Fatalf("created again at try %d", try)
			}
			f.expectCalls("missing", "GET load-balancers/{id}", "GET meta")
			f.expectCondition(svc, metav1.ConditionFalse, "LoadBalancerMissing", "the cloud does not have load balancer "+lb.ID)
			f.pass(30)
		}
		state, err := f.Ensure(t.Context(), f.stored(svc))
		if err != nil || state.Missing {
			t.Fatalf("the third try: %+v, %v", state, err)
		}
	}
}

// Answers that are no proof, or too few, or in too short a time, do not count.
func TestAbsenceNeedsProof(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"a proxy's 404": func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/v1/load-balancers/") {
				http.NotFound(w, r)
				return true
			}
			return false
		},
		"a degraded cloud": func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/meta" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			return json.NewEncoder(w).Encode(cloudv1.Meta{Status: cloudv1.StatusDegraded}) == nil
		},
		"forbidden": func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/v1/load-balancers/") {
				cloud.Problem(w, http.StatusForbidden, cloudv1.CodeForbidden)
				return true
			}
			return false
		},
		"too soon": func(http.ResponseWriter, *http.Request) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service()
			f.lose(f.publish(svc))
			f.cloud.Intercept(answer)
			for range 6 {
				if _, err := f.ensure(svc); err == nil {
					t.Fatal("created again")
				}
				if name == "too soon" {
					f.pass(9)
				} else {
					f.pass(30)
				}
			}
			if all := f.all(); len(all) != 0 {
				t.Errorf("%d load balancers", len(all))
			}
		})
	}
}

// A load balancer whose tag was removed in the cloud is neither changed nor replaced, and is found again when the tag
// is back.
func TestTagRemoved(t *testing.T) {
	for _, key := range []string{ownership.ServiceUID, ownership.ClusterUID} {
		for name, recorded := range map[string]bool{"with a record": true, "before the record": false} {
			t.Run(key+" "+name, func(t *testing.T) {
				f := start(t, 0)
				svc := builder.Service()
				lb := f.publish(svc)
				if !recorded {
					f.forget(svc)
				}
				value := lb.Tags[key]
				f.tag(lb, key, nil)
				builder.DLB("listener-maxqps", "9")(svc)
				revision := f.only().Revision
				for range 5 {
					if _, err := f.ensure(svc); err == nil {
						t.Fatal("no error")
					}
					f.pass(30)
				}
				if now := f.only(); now.Revision != revision {
					t.Errorf("revision %s, want %s: nothing may be written", now.Revision, revision)
				}
				if recorded {
					f.expectCondition(svc, metav1.ConditionFalse, "LoadBalancerNotOwned", "lacks the tag "+key+"="+value)
				}
				f.tag(lb, key, &value)
				f.mustEnsure(svc)
				if now := f.only(); now.ID != lb.ID || now.Listeners[0].MaxQPS != 9 {
					t.Errorf("load balancer %+v, want %s with 9", now, lb.ID)
				}
			})
		}
	}
}

// A user gives up a load balancer and its address.
func TestAbandon(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	lb := f.publish(svc)
	f.tag(lb, ownership.ServiceUID, nil)
	builder.Annotation(record.AnnotationAbandon, lb.ID)(svc)
	f.mustEnsure(svc)
	if all := f.all(); len(all) != 2 {
		t.Errorf("%d load balancers, want another one", len(all))
	}
	before := f.stored(svc).Annotations[service.AnnotationRecord]
	f.mustEnsure(svc)
	if all, after := f.all(), f.stored(svc).Annotations[service.AnnotationRecord]; len(all) != 2 || before != after {
		t.Errorf("%d load balancers, record %s", len(all), after)
	}
}

// More than a fifth of the load balancers are missing: none is replaced until they are back.
func TestManyMissing(t *testing.T) {
	f := start(t, 0)
	var services []*corev1.Service
	var balancers []cloudv1.LoadBalancer
	for i := range 6 {
		svc := named(string(rune('a' + i)))
		services = append(services, svc)
		balancers = append(balancers, f.publish(svc))
	}
	f.lose(balancers[0])
	f.lose(balancers[1])
	ensure := func(svc *corev1.Service) error { _, err := f.ensure(svc); return err }
	for range 4 {
		for _, svc := range services[:2] {
			if err := ensure(svc); err == nil {
				t.Fatal("created again")
			}
		}
		f.pass(30)
	}
	f.expectCondition(services[0], metav1.ConditionFalse, "LoadBalancerMissing", "more than 20 %")
	f.expectCondition(services[0], metav1.ConditionFalse, "LoadBalancerMissing", "quayctl resume missing-load-balancers")
	for i := range 4 {
		other := named(string(rune('p' + i)))
		if err := ensure(other); err == nil {
			t.Fatal("created a load balancer in a cloud that has lost many")
		}
		f.expectCondition(other, metav1.ConditionFalse, "LoadBalancerMissing", "quayctl resume missing-load-balancers")
	}
	if all := f.all(); len(all) != 4 {
		t.Errorf("%d load balancers, want those that are left", len(all))
	}
	f.edit(services[0], func(s *corev1.Service) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, record.AnnotationAbandon, balancers[0].ID)
	})
	if err := ensure(f.stored(services[0])); err != nil {
		t.Errorf("the user has given one up: %v", err)
	}
}

// Load balancers that disappear because their Services are being deleted do not keep others from getting one.
func TestManyMissingBecauseOfDeletions(t *testing.T) {
	f := start(t, 0)
	for i := range 4 {
		svc := named(string(rune('a' + i)))
		f.lose(f.publish(svc))
		f.edit(svc, deleting)
	}
	f.mustEnsure(named("other"))
}

// A record that was forged, or copied with its Service, does not count as a missing load balancer.
func TestForgedRecordsAreNotMissing(t *testing.T) {
	f := start(t, 0)
	svc := named("web")
	lb := f.publish(svc)
	for i := range 6 {
		other := named(string(rune('p' + i)))
		f.put(other)
		f.edit(other, func(s *corev1.Service) {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, service.AnnotationRecord, `{"id":"lb-none"}`)
		})
	}
	f.lose(lb)
	for range 2 {
		if _, err := f.ensure(svc); err == nil {
			t.Fatal("created again")
		}
		f.pass(30)
	}
	f.mustEnsure(svc)
}

// A record is a user's input: it does not lead to what belongs to others, and does not hide the Service's own.
func TestForgedRecord(t *testing.T) {
	f := start(t, 0)
	victim := f.publish(named("victim"))
	svc := builder.Service(builder.DLB("listener-maxqps", "9"))
	f.put(svc)
	f.edit(svc, func(s *corev1.Service) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, service.AnnotationRecord, `{"id":"`+victim.ID+`","deleting":true}`)
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.77"}}
	})
	if _, err := f.ensure(svc); err == nil {
		t.Error("no error")
	}
	f.expectCondition(svc, metav1.ConditionFalse, "LoadBalancerNotOwned", ", but has quaymaster.dev/service-uid=victim of service shop/victim")
	deleting(svc)
	if err := f.remove(svc); err == nil {
		t.Error("removed")
	}
	if now := f.only(); now.Revision != victim.Revision {
		t.Errorf("the other service's load balancer was changed: %+v", now)
	}
	f.edit(svc, func(s *corev1.Service) { s.Status.LoadBalancer = corev1.LoadBalancerStatus{} })
	svc.DeletionTimestamp = nil
	for _, garbage := range []string{"", "{", `{"id":5}`} {
		f.edit(svc, func(s *corev1.Service) {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, service.AnnotationRecord, garbage)
		})
		f.mustEnsure(svc)
	}
	f.edit(svc, func(s *corev1.Service) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, service.AnnotationRecord, `{"id":"`+victim.ID+`"}`)
	})
	f.mustEnsure(svc)
	if all := f.all(); len(all) != 2 {
		t.Errorf("%d load balancers, want 2", len(all))
	}
}

// A Service that was copied with the record of another one gets a load balancer of its own.
func TestCopiedService(t *testing.T) {
	f := start(t, 0)
	original := named("original")
	lb := f.publish(original)
	copied := func(name string) *corev1.Service {
		svc := named(name)
		f.put(svc)
		f.edit(svc, func(s *corev1.Service) { s.Annotations = f.stored(original).Annotations })
		return svc
	}
	brief := copied("brief")
	deleting(brief)
	if err := f.remove(brief); err != nil {
		t.Errorf("deleted before it had a load balancer: %v", err)
	}
	svc := copied("copy")
	own := f.publish(svc)
	if own.ID == lb.ID || len(f.all()) != 2 || !strings.Contains(f.stored(svc).Annotations[service.AnnotationRecord], own.ID) {
		t.Errorf("load balancers %v, record %s", f.all(), f.stored(svc).Annotations[service.AnnotationRecord])
	}
	for _, now := range f.all() {
		if now.ID == lb.ID && now.Revision != lb.Revision {
			t.Errorf("the other service's load balancer was changed: %+v", now)
		}
	}
}

// A Service that was restored into another cluster, with the record of its load balancer there, gets one of its own,
// whether or not this cloud has the recorded one.
func TestRestoredIntoAnotherCluster(t *testing.T) {
	theirs := map[string]string{ownership.ClusterUID: "another-cluster", ownership.ServiceUID: "another-service"}
	for name, tags := range map[string]map[string]string{"of another cluster": theirs, "released": nil, "in another cloud": nil} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			id := "lb-none"
			if name != "in another cloud" {
				lb, _, err := f.cloud.Client.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{
					Name: "theirs", Tags: tags, LoadBalancerFields: cloudv1.LoadBalancerFields{
						Scheme: cloudv1.SchemePublic, VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: "vip"}},
						Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
					},
				}, cloudapi.WriteOptions{IdempotencyKey: "theirs"})
				if err != nil {
					t.Fatal(err)
				}
				id = lb.ID
			}
			svc := builder.Service()
			builder.Annotation(service.AnnotationRecord, `{"id":"`+id+`","owner":"theirs","addresses":["203.0.113.9"],"nodeGroup":"ng-theirs"}`)(svc)
			own := f.publish(svc)
			if own.ID == id || record.Of(f.stored(svc)).ID != own.ID {
				t.Errorf("load balancer %s, recorded %s", own.ID, record.Of(f.stored(svc)).ID)
			}
			for _, lb := range f.all() {
				if lb.ID == id && lb.Tags[ownership.ServiceUID] != tags[ownership.ServiceUID] {
					t.Errorf("the load balancer of others was changed: %+v", lb)
				}
			}
		})
	}
}

// A load balancer that was recorded for the Service, but not published yet, is not replaced because it has lost its tags or
// because of a single answer.
func TestRecordedButNotPublished(t *testing.T) {
	for name, lose := range map[string]func(*fixture, cloudv1.LoadBalancer){
		"missing": (*fixture).lose,
		"without tags": func(f *fixture, lb cloudv1.LoadBalancer) {
			f.tag(lb, ownership.ServiceUID, nil)
			f.tag(lb, ownership.ClusterUID, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service()
			f.mustEnsure(svc)
			lose(f, f.only())
			for range 2 {
				if _, err := f.ensure(svc); err == nil {
					t.Fatal("created again")
				}
				f.pass(25)
			}
		})
	}
}

// While a load balancer is missing, or not ours any more, the cloud is asked less and less often, and not at all for
// every pass.
func TestQuestionsBecomeRare(t *testing.T) {
	for name, lose := range map[string]func(*fixture, cloudv1.LoadBalancer){
		"missing":  (*fixture).lose,
		"disowned": func(f *fixture, lb cloudv1.LoadBalancer) { f.tag(lb, ownership.ServiceUID, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			var services []*corev1.Service
			for i := range 5 {
				svc := named(string(rune('a' + i)))
				services = append(services, svc)
				lose(f, f.publish(svc))
			}
			f.sync()
			f.cloud.Calls()
			asked := map[string]int{}
			for range 6 * 60 {
				for _, svc := range services {
					if _, err := f.Ensure(t.Context(), f.stored(svc)); err == nil {
						t.Fatal("created again")
					}
				}
				f.pass(10)
			}
			for _, call := range f.cloud.Calls() {
				if strings.HasPrefix(call, "GET /v1/load-balancers/") {
					call = "GET load-balancers/{id}"
				}
				asked[call]++
			}
			// At once, after half a minute or a minute, and then after pauses that double up to ten minutes.
			if n := asked["GET load-balancers/{id}"]; n > 5*12 || n < 5*8 {
				t.Errorf("%d questions about 5 load balancers in an hour", n)
			}
			if n := asked["GET /v1/meta"]; n > 12 {
				t.Errorf("%d questions about the state of the cloud", n)
			}
		})
	}
}

// An upgrade finds the load balancers of earlier versions by their tags, and writes nothing but the record.
func TestUpgrade(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service(builder.DLB("tags", "team=edge"))
	lb := f.publish(svc)
	f.forget(svc)
	f.restart()
	f.cloud.Calls()
	f.mustEnsure(svc)
	f.expectCalls("upgrade")
	if stored := f.stored(svc).Annotations[service.AnnotationRecord]; !strings.Contains(stored, lb.ID) {
		t.Errorf("record %q, want %s", stored, lb.ID)
	}
}

// Two clusters never take each other's load balancers.
func TestTwoClusters(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	lb := f.publish(svc)
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID("other")}})
	o := f.options
	o.Cluster = ownership.NewCluster(client.CoreV1())
	other := dlb.New(o)
	stored := f.stored(svc)
	if _, err := other.Ensure(t.Context(), stored); err == nil {
		t.Error("another cluster took the load balancer")
	}
	if now := f.only(); now.Revision != lb.Revision {
		t.Errorf("it was changed: %+v", now)
	}
}

var errRefused = errors.New("refused")

func refuseAll(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errRefused }
