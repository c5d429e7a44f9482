package safety

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quaymaster.dev/internal/brakes"
)

var (
	soak = flag.Duration("soak", 0, "how long TestRandom runs; 0 means a few sequences")
	seed = flag.Uint64("seed", 1, "seed of the first sequence of TestRandom")
)

const (
	// sequences is how many sequences TestRandom plays without -soak.
	sequences = 6
	// length is how many steps a sequence has.
	length = 60
	// services is how many different names the Services of a sequence have.
	services = 6
)

// TestRandom plays random sequences of what users, nodes, the cloud and its faults do, with the controllers being
// killed in between, and checks every promise after every write and in the end. A sequence depends on its seed alone.
func TestRandom(t *testing.T) {
	var total, faults, kills, violations int
	begin := time.Now()
	first, played := *seed, uint64(0)
	for ; played < sequences && *soak == 0 || time.Since(begin) < *soak; played++ {
		s := first + played
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &sequence{world: newWorld(t, size{nodes: 3, jobs: time.Second}), random: rand.New(rand.NewPCG(s, 0)), gone: map[string]bool{}}
				q.play()
				total, faults, kills, violations = total+q.steps, faults+q.faulted, kills+q.kills, violations+len(q.violations)
			})
		})
	}
	figure(t, "random sequences: %d from seed %d: %d steps, %d faults, %d kills, %d violations", played, first, total, faults, kills, violations)
}

// sequence is a world and what happens in it.
type sequence struct {
	*world
	random *rand.Rand
	// gone are the names of Services that were lost.
	gone map[string]bool
	// nodes is the number of Nodes that were added so far, killed that of deleted machines.
	steps, faulted, kills, nodes int
	log                          []string
}

func (q *sequence) play() {
	q.nodes = 3
	q.start()
	q.settle(0)
	for range length {
		q.steps++
		what := q.step()
		q.log = append(q.log, time.Now().UTC().Format(time.TimeOnly)+" "+what)
		time.Sleep(q.pause())
		if q.process.died() {
			q.kills++
			q.start()
		}
	}
	q.setFaults(nil)
	q.process.arm(0, false)
	q.heal()
	// Every delay that a fault has caused must be over, the confirmation of an absence included.
	q.settle(3 * time.Hour)
	if q.process.died() {
		q.start()
		q.settle(3 * time.Hour)
	}
	q.finish()
	if q.t.Failed() {
		for _, line := range q.log {
			q.t.Log(line)
		}
	}
}

// heal makes the kubelets of all Nodes report that they are ready, and resumes what a brake has stopped, as an operator
// does who has found that the cloud is right.
func (q *sequence) heal() {
	annotations := map[string]string{}
	for _, b := range brakes.All() {
		annotations[brakes.AnnotationResume(b.Name)] = time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	q.must(err)
	_, err = q.api.CoreV1().ConfigMaps(metav1.NamespaceSystem).
		Patch(q.t.Context(), brakes.ConfigMap, types.MergePatchType, patch, metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		q.must(err)
	}
	list, err := q.api.CoreV1().Nodes().List(q.t.Context(), metav1.ListOptions{})
	q.must(err)
	for i := range list.Items {
		q.ready(list.Items[i].Name, corev1.ConditionTrue)
	}
}

// pause is the time between two steps: mostly short, sometimes long enough for everything to settle.
func (q *sequence) pause() time.Duration {
	switch q.random.IntN(10) {
	case 0:
		return settled
	case 1, 2:
		return time.Duration(q.random.IntN(60)) * time.Second
	}
	return time.Duration(q.random.IntN(2000)) * time.Millisecond
}

func (q *sequence) step() string {
	name := fmt.Sprintf("s%d", q.random.IntN(services))
	switch choice := q.random.IntN(20); {
	case choice < 5:
		return q.ensure(name)
	case choice < 8:
		return q.change(name)
	case choice < 10:
		return q.remove(name)
	case choice < 12:
		return q.flip(name)
	case choice < 13:
		q.nodes++
		q.addNode(q.nodes)
		return fmt.Sprintf("node-%d joins", q.nodes)
	case choice < 15:
		return q.flicker()
	case choice < 17:
		n := 1 + q.random.IntN(12)
		after := q.random.IntN(2) == 0
		q.process.arm(n, after)
		return fmt.Sprintf("the controllers will be killed at call %d, after it: %t", n, after)
	case choice < 19:
		return q.fault()
	}
	q.setFaults(nil)
	return "the cloud works"
}

func (q *sequence) get(name string) *corev1.Service {
	svc, err := q.api.CoreV1().Services(namespace).Get(q.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return svc
}

func (q *sequence) ensure(name string) string {
	if q.get(name) != nil {
		return name + " exists"
	}
	q.service(name, func(svc *corev1.Service) { svc.Finalizers = []string{foreignFinalizer}[:q.random.IntN(2)] })
	return name + " is created"
}

func (q *sequence) change(name string) string {
	svc := q.get(name)
	if svc == nil || svc.DeletionTimestamp != nil {
		return name + " cannot be changed"
	}
	qps := fmt.Sprint(1 + q.random.IntN(1000))
	q.updateService(name, func(svc *corev1.Service) { svc.Annotations[annotation+"listener-maxqps"] = qps })
	return name + " asks for " + qps
}

func (q *sequence) remove(name string) string {
	svc := q.get(name)
	if svc == nil || svc.DeletionTimestamp != nil {
		return name + " cannot be deleted"
	}
	// Its load balancer is kept with its name, and a Service has only two possible names.
	if !slices.Contains(svc.Finalizers, foreignFinalizer) && !q.gone[name] && q.random.IntN(4) == 0 {
		q.gone[name] = true
		q.lose(name)
		return name + " is lost"
	}
	q.deleteService(name)
	if slices.Contains(svc.Finalizers, sharedFinalizer) {
		q.updateService(name, withdraw)
	}
	return name + " is deleted"
}

// flip changes the type of a Service, and gives it another class on the way back.
func (q *sequence) flip(name string) string {
	svc := q.get(name)
	if svc == nil || svc.DeletionTimestamp != nil {
		return name + " cannot be changed"
	}
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		q.updateService(name, func(svc *corev1.Service) {
			svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil
			withdraw(svc)
		})
		return name + " is no longer a load balancer"
	}
	class := []*string{nil, new(ownClass), new(otherClass)}[q.random.IntN(3)]
	q.updateService(name, func(svc *corev1.Service) { give(svc, class) })
	return fmt.Sprintf("%s is a load balancer of class %s", name, ptr.Deref(class, "(none)"))
}

// flicker changes what a kubelet reports.
func (q *sequence) flicker() string {
	name := fmt.Sprintf("node-%d", 1+q.random.IntN(q.nodes))
	status := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}[q.random.IntN(3)]
	if _, err := q.api.CoreV1().Nodes().Get(q.t.Context(), name, metav1.GetOptions{}); err != nil {
		return name + " does not exist"
	}
	q.ready(name, status)
	return fmt.Sprintf("%s reports %s", name, status)
}

// fault makes the cloud fail in some way until another step ends that.
func (q *sequence) fault() string {
	q.faulted++
	names := faultNames()
	name := names[q.random.IntN(len(names))]
	q.setFaults(faults()[name](q.random))
	return "the cloud: " + name
}
