package service_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/kube/condition"
)

// bubble runs a test in virtual time.
func bubble(test func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

const (
	ensuring = "Normal EnsuringLoadBalancer Ensuring load balancer"
	ensured  = "Normal EnsuredLoadBalancer Ensured load balancer"
	deleting = "Normal DeletingLoadBalancer Deleting load balancer"
	gone     = "Normal DeletedLoadBalancer Deleted load balancer"
)

func TestLifeOfAService(t *testing.T) {
	bubble(func(t *testing.T) {
		f := start(t)
		// The finalizer comes before the load balancer, and the record with the address.
		f.ensure = func(s *corev1.Service) (service.State, error) {
			if !slices.Contains(s.Finalizers, finalizer) || !slices.Contains(f.get("web").Finalizers, finalizer) {
				t.Error("the cloud was called before the finalizer was written")
			}
			if s.Annotations[service.AnnotationRecord] == "" {
				return waiting(s, 30*time.Second), nil
			}
			return ready(s), nil
		}
		f.put(svc("web"))
		f.settle()
		f.expect("ensure web", "web status, web status", ensuring)
		if got := f.get("web"); got.Annotations[service.AnnotationRecord] != "lb-web" || len(got.Status.LoadBalancer.Ingress) != 0 {
			t.Errorf("after the first pass: %+v", got)
		}
		time.Sleep(30 * time.Second)
		f.settle()
		f.expect("ensure web", "web status", ensured)
		got := f.get("web")
		if diff := cmp.Diff(*address("192.0.2.1"), got.Status.LoadBalancer); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		// One changed annotation is one write.
		f.change("web", annotate("setting", "fast"))
		f.settle()
		f.expect("ensure web", "web status", ensured)
		// Deletion polls until the cloud confirms it. Then the finalizer goes, and with it the Service.
		f.remove = func(*corev1.Service) (service.State, error) {
			return service.State{Record: "lb-web, going", RetryAfter: time.Minute}, nil
		}
		f.change("web", deleted)
		f.settle()
		f.expect("remove web", "web status", deleting)
		if got := f.get("web"); got.Annotations[service.AnnotationRecord] != "lb-web, going" {
			t.Errorf("record %q", got.Annotations[service.AnnotationRecord])
		}
		time.Sleep(time.Minute)
		f.settle()
		f.expect("remove web", "", "")
		f.remove = func(*corev1.Service) (service.State, error) { return service.State{Gone: true}, nil }
		f.controller.Enqueue("uid-web")
		f.settle()
		f.expect("remove web", "web status", gone)
		if f.get("web") != nil {
			t.Error("the service is still there")
		}
		time.Sleep(time.Hour)
		f.settle()
		f.expect("", "", "")
	})(t)
}

// TestUnchanged: a start with Services that are as they should be writes nothing and has no Events, and neither has a
// change that concerns others.
func TestUnchanged(t *testing.T) {
	bubble(func(t *testing.T) {
		var existing []*corev1.Service
		for i := range 1000 {
			existing = append(existing, svc(fmt.Sprintf("web-%d", i), settled))
		}
		f := start(t, existing...)
		if n := len(f.called()); n != 1000 {
			t.Errorf("%d passes at the start, want 1000", n)
		}
		f.forgetCalls()
		f.expect("", "", "")
		for what, change := range map[string]func(*corev1.Service){
			"label":              func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} },
			"field managers":     func(s *corev1.Service) { s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}} },
			"owner":              func(s *corev1.Service) { s.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} },
			"nothing but the rv": func(*corev1.Service) {},
		} {
			f.change("web-7", change)
			f.settle()
			if calls := f.called(); len(calls) != 0 {
				t.Errorf("%s: calls %q", what, calls)
			}
		}
		// Whether an annotation counts, only the cloud's side knows; the Service is not written for it.
		f.change("web-7", annotate("example.com/note", "x"))
		f.settle()
		f.expect("ensure web-7", "", "")
	})(t)
}

// TestOtherClass: a Service of another controller is never written, unless it was ours. The finalizer that other
// controllers share is theirs.
func TestOtherClass(t *testing.T) {
	others := func(s *corev1.Service) {
		s.Spec.LoadBalancerClass = new(otherClass)
		s.Finalizers = append(s.Finalizers, shared)
		s.Status.LoadBalancer = *address("203.0.113.9")
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: "example.com/Ready", Status: metav1.ConditionTrue})
	}
	clusterIP := func(s *corev1.Service) { s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil }
	finalizers := func(names ...string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Finalizers = names }
	}
	none := func(s *corev1.Service) {
		s.Finalizers, s.Status = nil, corev1.ServiceStatus{}
		delete(s.Annotations, service.AnnotationRecord)
		delete(s.Annotations, claim)
	}
	keeping := func(name string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			none(s)
			s.Finalizers = []string{name}
		}
	}
	const another, formerClass = "service.quaymaster.dev/example.com_lb", "service.quaymaster.dev/example.com_former"
	for name, tc := range map[string]struct {
		svc *corev1.Service
		// want is nil if the Service must not be touched.
		want func(*corev1.Service)
	}{
		"theirs":                               {svc: svc("web", others)},
		"theirs, deleted":                      {svc: svc("web", others, deleted)},
		"theirs before it became another type": {svc: svc("web", others, clusterIP)},
		"theirs, with a record":                {svc: svc("web", recorded, others)},
		"theirs, of another Quaymaster":        {svc: svc("web", recorded, others, finalizers(another))},
		"ours before": {
			svc: svc("web", settled, others),
			want: func(s *corev1.Service) {
				s.Finalizers, s.Status.Conditions = []string{shared}, s.Status.Conditions[1:]
				delete(s.Annotations, service.AnnotationRecord)
			},
		},
		"ours before, and theirs in between": {svc: svc("web", settled, others, clusterIP), want: func(s *corev1.Service) {
			conditions := s.Status.Conditions[1:]
			none(s)
			s.Status.Conditions = conditions
		}},
		"ours by a class that was configured before": {
			svc: svc("web", recorded, others, finalizers(formerClass)),
		},
		"ours before, replaced as a whole": {
			svc: svc("web", settled, func(s *corev1.Service) { s.Annotations, s.Finalizers = nil, nil }, others),
		},
		"of another Quaymaster, no load balancer any more": {
			svc: svc("web", recorded, clusterIP, finalizers(another)),
		},
		"ours of an earlier version without claims, no load balancer any more": {svc: svc("web", unclaimed, clusterIP), want: none},
		"ours of an earlier version, no load balancer any more":                {svc: svc("web", earlier, clusterIP), want: none},
		"ours of an earlier version, without a record yet": {
			svc: svc("web", clusterIP, annotate(claim, class), finalizers(shared)), want: none,
		},
		"ours without a finalizer, no load balancer any more": {svc: svc("web", recorded, clusterIP), want: none},
		"ours without a record, no load balancer any more":    {svc: svc("web", clusterIP, finalizers(finalizer)), want: none},
		"ours, and no load balancer any more": {
			svc:  svc("web", settled, clusterIP, func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, "example.com/keep") }),
			want: keeping("example.com/keep"),
		},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			before := tc.svc
			f := start(t, before)
			if tc.want == nil {
				f.change("web", annotate("example.com/note", "x"))
				f.settle()
				f.expect("", "", "")
				return
			}
			f.expect("remove web", "web status", gone)
			want, got := before.DeepCopy(), f.get("web")
			tc.want(want)
			want.ResourceVersion = got.ResourceVersion
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("unexpected service (-want +got):\n%s", diff)
			}
			time.Sleep(time.Hour)
			f.expect("", "", "")
		}))
	}
}

// TestFinalizer: the finalizer is valid for every class, and no two classes share one.
func TestFinalizer(t *testing.T) {
	seen := map[string]string{}
	long := strings.Repeat("x", 62)
	for _, class := range []string{"mycloud.io/dlb", "mycloud.io.dlb", "dlb", "example.com/dlb", "example.com/" + long, "example.org/" + long} {
		name := service.Finalizer(class)
		if problems := validation.IsQualifiedName(name); len(problems) > 0 {
			t.Errorf("%s of class %s: %q", name, class, problems)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%s and %s both have %s", class, other, name)
		}
		seen[name] = class
	}
}

// TestTakeover: our finalizer joins the one that earlier versions have shared with other
// controllers.
func TestTakeover(t *testing.T) {
	keep := func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, "example.com/keep") }
	for name, tc := range map[string]struct {
		svc  *corev1.Service
		want []string
	}{
		"of an earlier version": {svc("web", keep, earlier), []string{"example.com/keep", shared, finalizer}},
		"of one without claims": {svc("web", unclaimed, keep), []string{shared, "example.com/keep", finalizer}},
		"without a record yet":  {svc("web", earlier, func(s *corev1.Service) { delete(s.Annotations, service.AnnotationRecord) }), []string{shared, finalizer}},
		"of a class that was configured before": {
			svc("web", recorded, func(s *corev1.Service) { s.Finalizers = []string{service.Finalizer("example.com/former")} }), []string{finalizer, shared},
		},
		// Another controller has yet to clean up.
		"of another controller before": {
			svc("web", func(s *corev1.Service) { s.Finalizers = []string{shared} }), []string{shared, finalizer},
		},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			f := start(t, tc.svc)
			got := f.get("web")
			_, claimed := got.Annotations[claim]
			if diff := cmp.Diff(tc.want, got.Finalizers); diff != "" || claimed || got.Annotations[service.AnnotationRecord] != "lb-web" {
				t.Errorf("annotations %v, finalizers (-want +got):\n%s", got.Annotations, diff)
			}
			if _, had := tc.svc.Annotations[service.AnnotationRecord]; had {
				f.expect("ensure web", "web status", "")
			}
			f.change("web", deleted)
			f.settle()
			if got := f.get("web"); got != nil && slices.Contains(got.Finalizers, finalizer) {
				t.Errorf("finalizers %q of a deleted service", got.Finalizers)
			}
		}))
	}
	t.Run("deleted meanwhile", bubble(func(t *testing.T) {
		f := start(t, svc("recorded", unclaimed, deleted), svc("cleared", deleted, func(s *corev1.Service) { s.Finalizers = []string{shared} }))
		for _, name := range []string{"recorded", "cleared"} {
			if got := f.get(name); got != nil {
				t.Errorf("%s is still there: %+v", name, got)
			}
		}
	}))
}

// TestDefaultClassGivenUp: a Service without a class that was ours keeps its load balancer when such Services are no
// longer ours, because a change of the configuration must not delete it. It still goes with the Service.
func TestDefaultClassGivenUp(t *testing.T) {
	bubble(func(t *testing.T) {
		f := start(t, svc("web", settled, func(s *corev1.Service) { s.Labels = map[string]string{unserved: ""} }))
		f.change("web", annotate("example.com/note", "x"))
		f.settle()
		f.expect("", "", "")
		f.change("web", deleted)
		f.settle()
		f.expect("remove web", "web status", gone)
	})(t)
}

// TestOthersWrite: what others write between our read and our write is not lost, and counts.
func TestOthersWrite(t *testing.T) {
	bubble(func(t *testing.T) {
		f := start(t)
		f.before = func() {
			f.change("web", func(s *corev1.Service) {
				s.Finalizers = append(s.Finalizers, "example.com/keep")
				s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: "example.com/Ready", Status: metav1.ConditionTrue})
			})
		}
		f.put(svc("web"))
		f.settle()
		f.ensure = func(s *corev1.Service) (service.State, error) {
			if s.Annotations["setting"] == "fast" {
				f.api.before = func() { f.change("web", annotate("setting", "faster")) }
			}
			return ready(s), nil
		}
		f.reset()
		f.change("web", annotate("setting", "fast"))
		f.settle()
		if calls := f.called(); len(calls) < 2 {
			t.Errorf("calls %q, want a second one for the service as it is now", calls)
		}
		f.forgetCalls()
		f.expect("", "web status", ensured)
		got := f.get("web")
		if diff := cmp.Diff([]string{"example.com/keep", finalizer, shared}, got.Finalizers); diff != "" {
			t.Errorf("finalizers (-want +got):\n%s", diff)
		}
		if meta.FindStatusCondition(got.Status.Conditions, "example.com/Ready") == nil {
			t.Errorf("the condition of another controller is lost: %+v", got.Status.Conditions)
		}
		if c := meta.FindStatusCondition(got.Status.Conditions, condition.Configured); c.Message != "as faster" {
			t.Errorf("condition %+v", c)
		}
		f.before = func() {
			f.change("web", func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, "example.com/late") })
		}
		f.change("web", deleted)
		f.settle()
		if diff := cmp.Diff([]string{"example.com/keep", "example.com/late"}, f.get("web").Finalizers); diff != "" {
			t.Errorf("finalizers (-want +got):\n%s", diff)
		}
	})(t)
}

// TestOursIsRestored: what others remove of ours comes back.
func TestOursIsRestored(t *testing.T) {
	for name, change := range map[string]func(*corev1.Service){
		"finalizer":          func(s *corev1.Service) { s.Finalizers = nil },
		"record":             func(s *corev1.Service) { delete(s.Annotations, service.AnnotationRecord) },
		"record, altered":    annotate(service.AnnotationRecord, "lb-of-another"),
		"address":            func(s *corev1.Service) { s.Status.LoadBalancer = corev1.LoadBalancerStatus{} },
		"condition":          func(s *corev1.Service) { s.Status.Conditions = nil },
		"everything":         func(s *corev1.Service) { s.Finalizers, s.Annotations, s.Status = nil, nil, corev1.ServiceStatus{} },
		"condition, altered": func(s *corev1.Service) { s.Status.Conditions[0].Status = metav1.ConditionFalse },
	} {
		t.Run(name, bubble(func(t *testing.T) {
			f := start(t, svc("web", settled, sharing))
			f.change("web", change)
			f.settle()
			want, got := svc("web", settled, sharing), f.get("web")
			want.ResourceVersion = got.ResourceVersion
			if len(got.Status.Conditions) == 1 {
				got.Status.Conditions[0].LastTransitionTime = want.Status.Conditions[0].LastTransitionTime
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("unexpected service (-want +got):\n%s", diff)
			}
		}))
	}
}

// TestReplacedAsAWhole: a client that replaces a whole Service, as kubectl replace does, removes finalizer and record together
// with the request for a load balancer. It goes nevertheless, also if no controllers run at that moment.
func TestReplacedAsAWhole(t *testing.T) {
	bubble(func(t *testing.T) {
		replace := func(s *corev1.Service) {
			s.Spec.Type, s.Finalizers, s.Annotations = corev1.ServiceTypeClusterIP, []string{"example.com/keep"}, nil
		}
		f := start(t, svc("web", settled), svc("api", settled))
		f.reset()
		f.change("web", replace)
		f.settle()
		f.expect("remove web", "web status", gone)
		f.restart(func() { f.change("api", replace) })
		for _, name := range []string{"web", "api"} {
			got := f.get(name)
			if !slices.Equal(got.Finalizers, []string{"example.com/keep"}) || len(got.Status.Conditions)+len(got.Status.LoadBalancer.Ingress) > 0 {
				t.Errorf("unexpected service %+v", got)
			}
		}
	})(t)
}

// TestRemovedByForce: nothing is done about the load balancer of a Service that no longer exists. Its finalizer was
// removed by force, or the API server has lost its data.
func TestRemovedByForce(t *testing.T) {
	for name, svc := range map[string]*corev1.Service{
		"after a request to delete it": svc("web", settled, deleted),
		"without finalizer":            svc("web", settled, func(s *corev1.Service) { s.Finalizers = nil }),
		"without a request":            svc("web", settled),
		"of an earlier version":        svc("web", earlier, deleted),
	} {
		t.Run(name, bubble(func(t *testing.T) {
			f := start(t)
			blocked := errors.New("blocked")
			f.ensure = func(*corev1.Service) (service.State, error) { return service.State{}, blocked }
			f.remove = func(*corev1.Service) (service.State, error) { return service.State{}, blocked }
			f.fail = blocked // nothing is written
			f.put(svc)
			f.settle()
			f.drop("web")
			f.settle()
			f.reset()
			f.controller.Enqueue(svc.UID)
			time.Sleep(time.Hour)
			f.settle()
			f.expect("", "", "")
		}))
	}
}

// TestReplaced: a Service is never confused with a later one of the same name.
func TestReplaced(t *testing.T) {
	bubble(func(t *testing.T) {
		f := start(t)
		f.before = func() {
			f.drop("web")
			f.put(svc("web", func(s *corev1.Service) { s.UID = "uid-second" }))
		}
		f.ensure = func(s *corev1.Service) (service.State, error) {
			state := ready(s)
			state.Record = string(s.UID)
			return state, nil
		}
		f.put(svc("web"))
		f.settle()
		if got := f.get("web"); got.UID != "uid-second" || got.Annotations[service.AnnotationRecord] != "uid-second" {
			t.Errorf("unexpected service %+v", got)
		}
	})(t)
}

// TestBackOff: failures are repeated after 5 seconds to 5 minutes, or when the cloud asks for it.
func TestBackOff(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		want  []time.Duration
	}{
		"doubling":    {0, []time.Duration{0, 5 * time.Second, 15 * time.Second, 35 * time.Second, 75 * time.Second, 155 * time.Second, 315 * time.Second, 615 * time.Second}},
		"the cloud's": {7 * time.Minute / 60, []time.Duration{0, 7 * time.Second, 14 * time.Second}},
		"a long one":  {time.Hour, []time.Duration{0, time.Hour, 2 * time.Hour}},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			f := start(t)
			begin, tries := time.Now(), []time.Duration(nil)
			f.ensure = func(*corev1.Service) (service.State, error) {
				tries = append(tries, time.Since(begin).Round(time.Second))
				return service.State{RetryAfter: tc.after}, errors.New("no")
			}
			f.put(svc("web"))
			time.Sleep(tc.want[len(tc.want)-1] + time.Second)
			synctest.Wait()
			if diff := cmp.Diff(tc.want, tries); diff != "" {
				t.Errorf("tries (-want +got):\n%s", diff)
			}
		}))
	}
}

// TestFailureIsReported: the condition of a changed Service does not stay true when its pass fails.
func TestFailureIsReported(t *testing.T) {
	bubble(func(t *testing.T) {
		f := start(t, svc("web", settled))
		f.ensure = func(s *corev1.Service) (service.State, error) {
			state := waiting(s, 0)
			state.Record, state.Conditions[0].Reason = "", "SyncFailing"
			return state, errors.New("status 500")
		}
		f.reset()
		f.change("web", annotate("setting", "fast"))
		f.settle()
		f.expect("ensure web", "web status",
			"Warning SyncLoadBalancerFailed Error syncing load balancer: failed to ensure load balancer: status 500")
		got := f.get("web")
		if meta.IsStatusConditionTrue(got.Status.Conditions, condition.Configured) {
			t.Errorf("conditions %+v", got.Status.Conditions)
		}
		if got.Annotations[service.AnnotationRecord] != "lb-web" || len(got.Status.LoadBalancer.Ingress) != 1 {
			t.Errorf("record and address are lost: %+v", got)
		}
		// The same failure is not written again.
		time.Sleep(time.Hour)
		if writes := f.written(); len(writes) != 0 {
			t.Errorf("writes %q", writes)
		}
	})(t)
}

// TestNotReady: that the controllers have just started is no failure of a Service.
func TestNotReady(t *testing.T) {
	bubble(func(t *testing.T) {
		f := start(t, svc("web", settled))
		f.ensure = func(*corev1.Service) (service.State, error) {
			return service.State{RetryAfter: time.Minute}, fmt.Errorf("node groups: %w", service.ErrNotReady)
		}
		f.reset()
		f.change("web", annotate("setting", "fast"))
		f.settle()
		f.expect("ensure web", "", "")
	})(t)
}

// TestManyNewServices: the load balancers of 1000 new Services are all created at once, although the cloud needs 30
// seconds for each, and in spite of Services that fail.
func TestManyNewServices(t *testing.T) {
	bubble(func(t *testing.T) {
		f := start(t)
		created := map[types.UID]time.Time{}
		f.ensure = func(s *corev1.Service) (service.State, error) {
			if strings.HasPrefix(s.Name, "poisoned") {
				return service.State{}, errors.New("poisoned")
			}
			if created[s.UID].IsZero() {
				created[s.UID] = time.Now()
			}
			if left := 30*time.Second - time.Since(created[s.UID]); left > 0 {
				return waiting(s, min(left, 2*time.Second)), nil
			}
			return ready(s), nil
		}
		begin := time.Now()
		for i := range 50 {
			f.put(svc(fmt.Sprintf("poisoned-%d", i)))
		}
		for i := range 1000 {
			f.put(svc(fmt.Sprintf("web-%d", i)))
		}
		synctest.Wait()
		if len(created) != 1000 || time.Since(begin) != 0 {
			t.Errorf("%d creates after %s, want 1000 at once", len(created), time.Since(begin))
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		for i := range 1000 {
			if s := f.get(fmt.Sprintf("web-%d", i)); len(s.Status.LoadBalancer.Ingress) != 1 {
				t.Fatalf("%s has no address after 31 seconds", s.Name)
			}
		}
		if writes := len(f.written()); writes != 3*1000+50 {
			t.Errorf("%d writes, want 3 for each service and 1 for each poisoned one", writes)
		}
	})(t)
}

// TestFeed: a change of the load balancer starts a pass at once, and one of the policies in a namespace, too.
func TestFeed(t *testing.T) {
	bubble(func(t *testing.T) {
		f := start(t, svc("web", settled), svc("api", settled), svc("other", func(s *corev1.Service) { s.Namespace = "lab" }, settled))
		f.reset()
		f.controller.Enqueue("uid-web")
		f.controller.Enqueue("uid-unknown")
		f.settle()
		f.expect("ensure web", "", "")
		f.controller.EnqueueNamespace("lab")
		f.settle()
		f.expect("ensure other", "", "")
		f.controller.EnqueueNamespace("")
		f.settle()
		if n := len(f.called()); n != 3 {
			t.Errorf("%d passes, want 3", n)
		}
	})(t)
}

// TestConditions: observedGeneration is that of the Service, and lastTransitionTime that of the last change of the
// status.
func TestConditions(t *testing.T) {
	bubble(func(t *testing.T) {
		f := start(t, svc("web", settled, func(s *corev1.Service) { s.Generation = 3 }))
		find := func() metav1.Condition {
			return *meta.FindStatusCondition(f.get("web").Status.Conditions, condition.Configured)
		}
		since := find().LastTransitionTime
		time.Sleep(time.Hour)
		f.change("web", func(s *corev1.Service) { s.Generation, s.Annotations["setting"] = 4, "fast" })
		f.settle()
		if c := find(); c.ObservedGeneration != 4 || !c.LastTransitionTime.Equal(&since) || c.Message != "as fast" {
			t.Errorf("condition %+v, want the time of the last transition, %s", c, since)
		}
		f.ensure = func(s *corev1.Service) (service.State, error) { return waiting(s, 0), nil }
		f.controller.Enqueue("uid-web")
		now := time.Now()
		f.settle()
		if c := find(); c.LastTransitionTime.Sub(now).Abs() > time.Second {
			t.Errorf("condition %+v, want the time %s", c, now)
		}
	})(t)
}

// TestReportedDifference: of a load balancer that differs but is not changed, only the cloud's side emits an Event.
func TestReportedDifference(t *testing.T) {
	bubble(func(t *testing.T) {
		f := start(t, svc("web", settled))
		f.expect("ensure web", "", "")
		f.ensure = func(s *corev1.Service) (service.State, error) {
			return service.State{Conditions: []metav1.Condition{{Type: condition.Configured, Status: metav1.ConditionFalse, Reason: "Drifted"}}}, nil
		}
		f.controller.Enqueue("uid-web")
		f.settle()
		f.expect("ensure web", "web status", "")
	})(t)
}

// TestRestart: a Service that left us while the controller was down is cleaned up, and one that came is served.
func TestRestart(t *testing.T) {
	bubble(func(t *testing.T) {
		f := start(t, svc("left", settled), svc("stays", settled))
		f.restart(func() {
			f.change("left", func(s *corev1.Service) {
				s.Spec.LoadBalancerClass, s.Status.LoadBalancer = new(otherClass), *address("203.0.113.9")
			})
			f.put(svc("came"))
		})
		calls := f.called()
		slices.Sort(calls)
		if diff := cmp.Diff([]string{"ensure came", "ensure stays", "remove left"}, calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if got := f.get("left"); len(got.Finalizers) != 0 || got.Status.LoadBalancer.Ingress[0].IP != "203.0.113.9" {
			t.Errorf("unexpected service %+v", got)
		}
	})(t)
}

// TestProgress: only the time that a change of a Service takes is measured.
func TestProgress(t *testing.T) {
	bubble(func(t *testing.T) {
		f := start(t, svc("old", settled))
		begin := map[types.UID]time.Time{}
		f.ensure = func(s *corev1.Service) (service.State, error) {
			if begin[s.UID].IsZero() {
				begin[s.UID] = time.Now()
			}
			if time.Since(begin[s.UID]) < 4*time.Second {
				return waiting(s, 4*time.Second), nil
			}
			state := ready(s)
			degraded := metav1.Condition{Type: condition.Degraded, Status: metav1.ConditionTrue, Reason: "NoMembers"}
			if time.Since(begin[s.UID]) >= 9*time.Second {
				degraded.Status = metav1.ConditionFalse
			}
			state.Conditions = append(state.Conditions, degraded)
			return state, nil
		}
		f.put(svc("web"))
		time.Sleep(9 * time.Second)
		f.controller.Enqueue("uid-web")
		f.settle()
		f.change("web", annotate("example.com/note", "x"))
		f.settle()
		families, err := f.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			h := family.Metric[0].Histogram
			got[family.GetName()] = h.GetSampleSum()
			if h.GetSampleCount() != 1 {
				t.Errorf("%s has %d samples, want 1", family.GetName(), h.GetSampleCount())
			}
		}
		want := map[string]float64{
			"quaymaster_load_balancer_configured_seconds": 4, "quaymaster_load_balancer_serving_seconds": 9,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seconds (-want +got):\n%s", diff)
		}
	})(t)
}
