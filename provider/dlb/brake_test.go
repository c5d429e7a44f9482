package dlb_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/brake"
	"quaymaster.dev/internal/brakes"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/env"
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
	lost := dlb.RecordedID(f.stored(second))
	f.edit(second, func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, dlb.AnnotationAbandon, lost) })
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
			if uid := string(svc.UID); lb.ID == dlb.RecordedID(f.stored(svc)) {
				f.tag(lb, ownership.ServiceUID, &uid)
			}
		}
	}
	for _, svc := range services {
		f.mustEnsure(svc)
	}
	orphans := dlb.NewOrphans(f.Balancer, f.client.CoreV1(), clocktesting.NewFakeClock(time.Now()))
	f.pass(2)
	if err := orphans.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, engaged := book.Engaged(brakes.MissingLoadBalancers); engaged {
		t.Error("the brake is still engaged")
	}
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
