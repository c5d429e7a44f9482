package dlb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/brake"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

// record is a record of brakes, as operators see it.
func (f *fixture) record() *brake.Book {
	f.t.Helper()
	book := brake.New(brake.Options{Client: f.client, Namespace: "kube-system", Recorder: f.events})
	ctx, stop := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	running.Go(func() { book.Run(ctx) })
	f.t.Cleanup(func() { stop(); running.Wait() })
	env.Eventually(f.t, 10*time.Second, "the record of brakes", func(context.Context) error {
		if _, _, engaged := book.Engaged(brakes.MissingLoadBalancers); engaged {
			return errors.New("it is not read")
		}
		return nil
	})
	f.options.Brake = book
	f.restart()
	return book
}

// resume does what quayctl resume does.
func (f *fixture) resume(book *brake.Book) {
	f.t.Helper()
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, brakes.AnnotationResume(brakes.MissingLoadBalancers), until)
	_, err := f.client.CoreV1().ConfigMaps("kube-system").Patch(f.t.Context(), brakes.ConfigMap, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	env.Eventually(f.t, 10*time.Second, "the resumption", func(context.Context) error {
		if !book.Resumed(brakes.MissingLoadBalancers) {
			return errors.New("it is not known")
		}
		return nil
	})
}

// refuse ensures that Services stay without another load balancer for a while.
func (f *fixture) refuse(services ...*corev1.Service) {
	f.t.Helper()
	for range 4 {
		for _, svc := range services {
			if _, err := f.ensure(svc); err == nil {
				f.t.Fatalf("%s got a load balancer", svc.Name)
			}
		}
		f.pass(30)
	}
}

// The brake is recorded while many load balancers are missing. It stays engaged as long as one is, however many others
// there are.
func TestBrakeIsRecorded(t *testing.T) {
	f := start(t, 0)
	book := f.record()
	engaged := func() bool { _, _, is := book.Engaged(brakes.MissingLoadBalancers); return is }
	var others []*corev1.Service
	for i := range 4 {
		others = append(others, named(string(rune('p'+i))))
	}
	var balancers []cloudv1.LoadBalancer
	for _, svc := range others {
		balancers = append(balancers, f.publish(svc))
	}
	first, second := named("a"), named("b")
	for _, svc := range []*corev1.Service{first, second} {
		lb := f.publish(svc)
		f.lose(lb)
	}
	f.refuse(first, second)
	if !engaged() {
		t.Fatal("the brake is not engaged")
	}
	// Five of six are there again: the user has given up one.
	lost := record.Of(f.stored(second)).ID
	f.edit(second, func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, record.AnnotationAbandon, lost) })
	f.publish(f.stored(second))
	f.restart()
	f.refuse(first)
	if !engaged() {
		t.Error("the brake is released although one is still missing")
	}
	f.resume(book)
	f.mustEnsure(first)
	if len(f.all()) != len(balancers)+2 {
		t.Errorf("%d load balancers", len(f.all()))
	}
}

// When all load balancers are back, the brake is released, though no Service asks about it any more.
func TestBrakeIsReleased(t *testing.T) {
	f := start(t, 0)
	book := f.record()
	services := []*corev1.Service{named("a"), named("b"), named("c")}
	for _, svc := range services {
		lb := f.publish(svc)
		f.tag(lb, ownership.ServiceUID, nil)
	}
	if err := book.Engage(t.Context(), brakes.MissingLoadBalancers, "for a test"); err != nil {
		t.Fatal(err)
	}
	for _, lb := range f.all() {
		for _, svc := range services {
			if uid := string(svc.UID); lb.ID == record.Of(f.stored(svc)).ID {
				f.tag(lb, ownership.ServiceUID, &uid)
			}
		}
	}
	for _, svc := range services {
		f.mustEnsure(svc)
	}
	f.pass(2)
	go f.Run(t.Context())
	env.Eventually(t, 10*time.Second, "the release of the brake", func(context.Context) error {
		if message, _, engaged := book.Engaged(brakes.MissingLoadBalancers); engaged {
			return errors.New(message)
		}
		return nil
	})
}

// When an operator has resumed the work, new load balancers still do not get the addresses of those that are missing.
func TestResumeKeepsAddresses(t *testing.T) {
	f := start(t, 0)
	book := f.record()
	services, addresses := []*corev1.Service{named("a"), named("b")}, []string{}
	for _, svc := range services {
		lb := f.publish(svc)
		addresses = append(addresses, lb.VIPs[0].Address)
		f.lose(lb)
	}
	added := f.put(named("new"))
	f.pass(2)
	f.refuse(added, services[0], services[1])
	f.resume(book)
	if _, err := f.ensure(added); err == nil {
		t.Error("created before those that are missing")
	}
	for i, svc := range services {
		if got := f.mustEnsure(svc).Ingress[0].IP; got != addresses[i] {
			t.Errorf("%s has the address %s, had %s", svc.Name, got, addresses[i])
		}
	}
	f.pass(2)
	f.mustEnsure(added)
}

// When an operator has resumed the work, load balancers are replaced even in a cloud that was restored empty.
func TestResumeIsEnough(t *testing.T) {
	f := start(t, 0)
	book := f.record()
	services := []*corev1.Service{named("a"), named("b")}
	for _, svc := range services {
		f.publish(svc)
	}
	f.elsewhere()
	f.refuse(services...)
	f.resume(book)
	group, err := f.cloud.Client.CreateNodeGroup(
		t.Context(), cloudv1.NodeGroupSpec{Name: "dev-default", Tags: map[string]string{ownership.ClusterUID: clusterUID}},
		cloudapi.WriteOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	f.options.NodeGroups.(groups)["default"] = group.ID
	for _, svc := range services {
		for range 3 {
			if _, err = f.ensure(svc); err == nil {
				break
			}
			f.pass(30)
		}
		if err != nil {
			t.Errorf("%s: %v", svc.Name, err)
		}
	}
}

// What is missing is created again with the address that the Service publishes, or not at all, unless its user or an
// operator gives the address up.
func TestRecreateKeepsTheAddress(t *testing.T) {
	confirm := func(f *fixture, svc *corev1.Service) error {
		var err error
		for range 3 {
			if _, err = f.ensure(svc); err == nil {
				break
			}
			f.pass(30)
		}
		return err
	}
	// lost is a Service whose load balancer is lost, and whose address is another's by now, if it is taken.
	lost := func(t *testing.T, taken bool) (f *fixture, svc *corev1.Service, address string) {
		f = start(t, 0)
		svc = named("web")
		lb := f.publish(svc)
		f.lose(lb)
		f.put(named("gap")) // so that a free address is not the next one anyway
		f.mustEnsure(named("gap"))
		if taken {
			_, _, err := f.cloud.Client.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{
				Name: "thief", LoadBalancerFields: cloudv1.LoadBalancerFields{
					Scheme: lb.Scheme, Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
					VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: "vip", Address: lb.VIPs[0].Address}},
				},
			}, cloudapi.WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		return f, svc, lb.VIPs[0].Address
	}
	current := func(f *fixture, svc *corev1.Service) string { return f.mustEnsure(svc).Ingress[0].IP }
	t.Run("free", func(t *testing.T) {
		f, svc, address := lost(t, false)
		if err := confirm(f, svc); err != nil || current(f, svc) != address {
			t.Errorf("address %s, error %v; want %s", current(f, svc), err, address)
		}
	})
	t.Run("taken", func(t *testing.T) {
		f, svc, address := lost(t, true)
		if err := confirm(f, svc); err == nil {
			t.Fatal("created again, with a different address")
		}
		f.expectCondition(svc, metav1.ConditionFalse, "LoadBalancerMissing", "address "+address+" is in use; to get a new address")
		f.edit(svc, func(s *corev1.Service) {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, record.AnnotationAbandon, record.Of(s).ID)
		})
		if got := current(f, f.stored(svc)); got == address {
			t.Errorf("address %s, want a new one", got)
		}
	})
	t.Run("taken for good", func(t *testing.T) {
		f, svc, _ := lost(t, true)
		f.Audit(nil)
		f.cloud.Calls()
		added, calls := 0, 0
		for waited := 0; waited < 3600; waited += 10 {
			_, _ = f.ensure(svc)
			calls += len(f.cloud.Calls())
			if _, err := f.ensure(named("new")); err == nil && added == 0 {
				added = waited
			}
			f.cloud.Calls()
			f.pass(10)
		}
		if added == 0 || added > 120 {
			t.Errorf("another load balancer was created after %d s", added)
		}
		if calls > 60 {
			t.Errorf("%d requests in an hour", calls)
		}
	})
	t.Run("taken and resumed", func(t *testing.T) {
		f, svc, address := lost(t, true)
		f.resume(f.record())
		if err := confirm(f, svc); err != nil || current(f, svc) == address {
			t.Errorf("error %v, want a new address", err)
		}
	})
}

// A load balancer whose address another Service publishes is not published: that of the other one is missing.
func TestAddressInUse(t *testing.T) {
	f := start(t, 0)
	first := named("first")
	lb := f.publish(first)
	f.lose(lb)
	second := named("second")
	f.giveAddress(second, lb)
	f.put(second)
	f.sync()
	f.pass(2)
	if status, err := f.ensure(second); err == nil {
		t.Errorf("published %v", status)
	}
	f.expectCondition(second, metav1.ConditionFalse, "AddressInUse", "which service shop/first publishes")
	f.edit(first, func(s *corev1.Service) { s.Status.LoadBalancer = corev1.LoadBalancerStatus{} })
	f.pass(2)
	if got := f.mustEnsure(second).Ingress[0].IP; got != lb.VIPs[0].Address {
		t.Errorf("published %s", got)
	}
}

// giveAddress gives a Service a load balancer with the address of another one.
func (f *fixture) giveAddress(svc *corev1.Service, former cloudv1.LoadBalancer) {
	f.t.Helper()
	_, _, err := f.cloud.Client.CreateLoadBalancer(f.t.Context(), cloudv1.LoadBalancerSpec{
		Name: svc.Name, Tags: map[string]string{ownership.ClusterUID: clusterUID, ownership.ServiceUID: string(svc.UID)},
		LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme: former.Scheme, Network: former.Network, Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
			VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: "vip", Address: former.VIPs[0].Address}},
		},
	}, cloudapi.WriteOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
}

// A Service that was no load balancer while its own was deleted, and is one again, still publishes the address. No other
// Service publishes it before this Service has withdrawn it, which then gets another one. An invalid Service withdraws it,
// too: the others must not wait for its user.
func TestGivenUpAddress(t *testing.T) {
	t.Run("invalid", func(t *testing.T) {
		f := start(t, 0)
		svc := named("web")
		f.giveUp(svc)
		f.edit(svc, func(s *corev1.Service) {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, loadbalancer.Prefix+"network-type", "none")
		})
		f.expectWithdrawal(svc)
	})
	f := start(t, 0)
	first, second := named("first"), named("second")
	lb := f.giveUp(first)
	f.giveAddress(second, lb)
	f.pass(2)
	if status, err := f.ensure(second); err == nil {
		t.Errorf("publishes %v", status)
	}
	f.expectCondition(second, metav1.ConditionFalse, "AddressInUse", "which service shop/first publishes")
	f.expectWithdrawal(first)
	f.edit(first, func(s *corev1.Service) { s.Status.LoadBalancer = corev1.LoadBalancerStatus{} })
	f.pass(2)
	if got := f.mustEnsure(second).Ingress[0].IP; got != lb.VIPs[0].Address {
		t.Errorf("second publishes %s", got)
	}
	if got := f.mustEnsure(first).Ingress[0].IP; got == lb.VIPs[0].Address {
		t.Errorf("first publishes %s, too", got)
	}
}

// giveUp gives a Service a load balancer, which is deleted as if the Service had been none for a while.
func (f *fixture) giveUp(svc *corev1.Service) cloudv1.LoadBalancer {
	f.t.Helper()
	lb := f.publish(svc)
	f.edit(svc, func(s *corev1.Service) {
		was := s.Annotations[service.AnnotationRecord]
		s.Annotations[service.AnnotationRecord] = strings.Replace(was, "{", `{"deleting":true,`, 1)
	})
	f.lose(lb)
	return lb
}

// expectWithdrawal fails the test unless the next step is to withdraw what the Service publishes.
func (f *fixture) expectWithdrawal(svc *corev1.Service) {
	f.t.Helper()
	f.sync()
	state, err := dlb.New(f.options).Ensure(f.t.Context(), f.stored(svc))
	if err != nil || state.Published == nil || len(state.Published.Ingress) > 0 || state.RetryAfter == 0 {
		f.t.Fatalf("%+v, error %v, want the address to be withdrawn", state, err)
	}
}

// After the cloud was restored, no load balancer is created before it has confirmed which of the published ones are
// missing, but not for ever, and not for long for those of another namespace.
func TestAudit(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(f *fixture, svc *corev1.Service)
		// here and elsewhere are after how many seconds a load balancer is created in the namespace of the missing one, and in
		// another one, at the earliest.
		here, elsewhere int
	}{
		"confirmed":  {func(*fixture, *corev1.Service) {}, 60, 60},
		"unreadable": {func(f *fixture, _ *corev1.Service) { f.cloud.Intercept(unreadable) }, 600, 180},
		"rejected":   {func(f *fixture, svc *corev1.Service) { f.cloud.Intercept(rejecting(t, svc)) }, 600, 180},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			var services []*corev1.Service
			for i := range 6 {
				services = append(services, named(string(rune('a'+i))))
				lb := f.publish(services[i])
				if i == 0 {
					f.lose(lb)
				}
			}
			tc.edit(f, services[0])
			f.Audit(nil)
			here, elsewhere := named("new"), named("elsewhere")
			elsewhere.Namespace = "other"
			created := map[*corev1.Service]int{}
			for waited := 0; waited < 700 && len(created) < 2; waited += 10 {
				_, _ = f.ensure(services[0])
				for _, svc := range []*corev1.Service{here, elsewhere} {
					if _, done := created[svc]; done {
						continue
					}
					if _, err := f.ensure(svc); err == nil {
						created[svc] = waited
					} else if waited == 0 && !strings.Contains(err.Error(), "before the cloud has confirmed") {
						t.Errorf("refused because of %v", err)
					}
				}
				f.pass(10)
			}
			for svc, least := range map[*corev1.Service]int{here: tc.here, elsewhere: tc.elsewhere} {
				if waited, done := created[svc]; !done || waited < least || waited > least+30 {
					t.Errorf("%s: created after %d s, want %d to %d", svc.Name, waited, least, least+30)
				}
			}
		})
	}
}

// Many missing load balancers take time to create again. Those of other namespaces wait as long as it goes on.
func TestAuditOfMany(t *testing.T) {
	f := start(t, 0)
	var missing []*corev1.Service
	for i := range 15 {
		svc := named(string(rune('a' + i)))
		if lb := f.publish(svc); i < 3 {
			f.lose(lb)
			missing = append(missing, svc)
		}
	}
	f.Audit(nil)
	elsewhere := named("elsewhere")
	elsewhere.Namespace = "other"
	created := 0
	for waited := 0; waited < 700 && created == 0; waited += 10 {
		// The controllers come to one of them every two minutes.
		for _, svc := range missing[:min(1+waited/120, len(missing))] {
			_, _ = f.ensure(svc)
		}
		if _, err := f.ensure(elsewhere); err == nil {
			created = waited
		}
		f.pass(10)
	}
	if created < 300 || created > 330 {
		t.Errorf("created after %d s, want 300 to 330: when the last one is there again", created)
	}
}

// rejecting rejects the creation of the load balancer of a Service.
func rejecting(t *testing.T, svc *corev1.Service) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, fmt.Appendf(nil, "%q:%q", ownership.ServiceUID, svc.UID)) {
			return false
		}
		cloud.Problem(w, http.StatusForbidden, cloudv1.CodeQuotaExceeded)
		return true
	}
}

// unreadable answers reads of load balancers with errors.
func unreadable(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, "/v1/load-balancers/") {
		return false
	}
	cloud.Problem(w, http.StatusInternalServerError, cloudv1.CodeInternal)
	return true
}
