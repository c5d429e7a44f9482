package safety

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/kube/condition"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server/api/handler"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/harness/cloud"
)

var mixes = flag.Uint64("mixes", 1, "how many mixes TestCrowd tries, from -seed")

var crowdSize = flag.Int("crowd", 2000, "how many Services one namespace has in TestCrowd in a mix; those of one kind are a tenth as many")

// crowded is the namespace whose Services are trouble.
const crowded = "crowd"

// tarpit makes the cloud hang.
const tarpit = "tarpit"

// poison makes the cloud fail to process a request.
const poison = "poison"

// limited are the limits of the cloud, of which the controllers use half.
var limited = handler.RateLimits{Read: 600, Write: 240}

// trouble is what is wrong with a Service. The cloud alone can find out.
type trouble func(w *world, i int, svc *corev1.Service)

// troubles are the kinds of Services that must not harm others.
func troubles() map[string]trouble {
	return map[string]trouble{
		"that the cloud rejects": func(_ *world, i int, svc *corev1.Service) {
			svc.Annotations[annotation+"zones"] = fmt.Sprintf("mars-%d", i)
		},
		"with a forged record": func(_ *world, i int, svc *corev1.Service) {
			svc.Annotations[service.AnnotationRecord] = fmt.Sprintf(`{"id":"lb-%d"}`, i)
		},
		"with a forged record and rejected": func(_ *world, i int, svc *corev1.Service) {
			svc.Annotations[service.AnnotationRecord] = fmt.Sprintf(`{"id":"lb-%d"}`, i)
			svc.Annotations[annotation+"zones"] = "mars"
		},
		"with a copied record": func(w *world, _ int, svc *corev1.Service) {
			svc.Annotations[service.AnnotationRecord] = w.get("victim").Annotations[service.AnnotationRecord]
		},
		"that adopt nothing": func(_ *world, i int, svc *corev1.Service) {
			svc.Annotations[annotation+"load-balancer-id"] = fmt.Sprintf("lb-%d", i)
		},
		"that the cloud fails to process": func(_ *world, _ int, svc *corev1.Service) {
			svc.Annotations[annotation+"zones"] = poison
		},
		"with a forged record that the cloud fails to read": func(_ *world, i int, svc *corev1.Service) {
			svc.Annotations[service.AnnotationRecord] = fmt.Sprintf(`{"id":"lb-%s-%d"}`, poison, i)
		},
		"that the cloud hangs on": func(_ *world, _ int, svc *corev1.Service) {
			svc.Annotations[annotation+"zones"] = tarpit
		},
		"that are invalid": func(_ *world, _ int, svc *corev1.Service) {
			svc.Annotations[annotation+"listener-maxqps"] = "many"
		},
		"in many ingress groups": func(_ *world, i int, svc *corev1.Service) {
			svc.Annotations[annotation+"ingress-group"] = fmt.Sprintf("crowd-%d", i)
		},
		"that are fine": func(*world, int, *corev1.Service) {},
	}
}

// crowd creates Services with troubles in turn, as fast as the API server stores them.
func (w *world) crowd(count int, kinds []string) {
	w.t.Helper()
	all := troubles()
	for i := range count {
		w.service(fmt.Sprintf("c%d", i), func(svc *corev1.Service) {
			svc.Namespace = crowded
			all[kinds[i%len(kinds)]](w, i, svc)
		})
	}
}

func (w *world) get(name string) *corev1.Service {
	w.t.Helper()
	svc, err := w.api.CoreV1().Services(namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(err)
	return svc
}

// defaultGroup returns the id of the node group that Services use unless they name one.
func (w *world) defaultGroup() string {
	w.t.Helper()
	return w.group("default")
}

// group returns the id of a node group.
func (w *world) group(name string) string {
	w.t.Helper()
	list, err := w.cloud.ListNodeGroups(w.t.Context(), cloudapi.ListOptions{Tags: map[string]string{ownership.IngressGroup: name}})
	if w.must(err); len(list.Items) != 1 {
		w.t.Fatalf("%d node groups %s, want 1", len(list.Items), name)
	}
	return list.Items[0].ID
}

// seen has the time of the last request that the cloud got, by method and path.
type seen struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// observeRequests notes every request of the controllers.
func (w *world) observeRequests() *seen {
	s := &seen{last: map[string]time.Time{}}
	w.setFaults(func(rw http.ResponseWriter, r *http.Request) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last[r.Method+" "+r.URL.Path] = time.Now()
		body, err := io.ReadAll(r.Body)
		if strings.Contains(string(body), tarpit) || strings.Contains(r.URL.Path, tarpit) {
			s.mu.Unlock()
			<-r.Context().Done()
			s.mu.Lock()
			return true
		}
		if r.Body = io.NopCloser(bytes.NewReader(body)); err == nil && (bytes.Contains(body, []byte(poison)) || strings.Contains(r.URL.Path, poison)) {
			cloud.Problem(rw, http.StatusInternalServerError, cloudv1.CodeInternal)
			return true
		}
		return false
	})
	return s
}

func (s *seen) since(call string, at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.last[call].Before(at)
}

// any reports whether there was a request since then whose method and path begin like that.
func (s *seen) any(prefix string, at time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for call, last := range s.last {
		if strings.HasPrefix(call, prefix) && !last.Before(at) {
			return true
		}
	}
	return false
}

// patience is how long an operation may take before it counts as stuck.
const patience = time.Hour

// took returns how long it takes until a condition holds.
func took(done func() bool) time.Duration {
	begin := time.Now()
	for !done() && time.Since(begin) < patience {
		time.Sleep(max(10*time.Millisecond, time.Since(begin)/50))
	}
	return time.Since(begin)
}

// latencies measures everything that must not wait for the Services of another namespace. n is the number of the
// measurement.
func (w *world) latencies(s *seen, n int) map[string]time.Duration {
	w.t.Helper()
	all := map[string]time.Duration{}
	begin := time.Now()
	w.updateNode("node-2", "", func(node *corev1.Node) {
		node.Annotations = map[string]string{ingressNode: map[bool]string{true: "false", false: "default"}[n%2 == 0]}
	})
	all["a member of a node group changes"] = took(func() bool {
		return s.since("PATCH /v1/node-groups/"+w.defaultGroup()+"/members", begin)
	})

	name := fmt.Sprintf("calm-%d", n)
	w.service(name, nil)
	all["a service is published"] = took(func() bool { return len(w.get(name).Status.LoadBalancer.Ingress) > 0 })
	w.updateService(name, func(svc *corev1.Service) { svc.Spec.Ports[0].NodePort++ })
	all["a service is changed"] = took(func() bool {
		svc := w.get(name)
		c := meta.FindStatusCondition(svc.Status.Conditions, condition.Configured)
		return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == svc.Generation
	})
	w.deleteService(name)
	all["a service is deleted"] = took(func() bool {
		_, err := w.api.CoreV1().Services(namespace).Get(w.t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})

	machine := fmt.Sprintf("node-%d", 10+n)
	w.deleteMachine(machine)
	w.ready(machine, corev1.ConditionUnknown)
	all["the node of a deleted machine is deleted"] = took(func() bool {
		_, err := w.api.CoreV1().Nodes().Get(w.t.Context(), machine, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	return all
}

// series measures after each of the pauses, in which churn is called, and returns the longest latencies.
func (w *world) series(s *seen, churn func(), pauses ...time.Duration) map[string]time.Duration {
	w.t.Helper()
	longest := map[string]time.Duration{}
	for n, pause := range pauses {
		for end := time.Now().Add(pause); time.Now().Before(end); time.Sleep(time.Minute) {
			churn()
		}
		for what, d := range w.latencies(s, n) {
			longest[what] = max(longest[what], d)
		}
	}
	return longest
}

func newCrowdedWorld(t *testing.T) *world {
	w := newWorld(t, size{nodes: 20, jobs: time.Second, addresses: "100.64.0.0/12", limits: limited})
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: crowded}})
	w.service("victim", nil)
	w.start()
	w.settle(0)
	return w
}

// TestCrowd: whatever is wrong with the Services of one namespace, and however many there are, work for safety and the
// Services of other namespaces take at most twice as long as without them.
func TestCrowd(t *testing.T) {
	crowds := map[string][]string{}
	if !testing.Short() {
		for kind := range troubles() {
			crowds[kind] = []string{kind}
		}
	}
	for n := range *mixes {
		crowds[fmt.Sprintf("in the mix of seed %d", *seed+n)] = mix(*seed + n)
	}
	var calm map[string]time.Duration
	synctest.Test(t, func(t *testing.T) {
		w := newCrowdedWorld(t)
		// The latencies depend on when the cloud is asked for changes, so that one measurement is not enough.
		calm = w.series(w.observeRequests(), func() {}, slices.Repeat([]time.Duration{11 * time.Minute}, 9)...)
		w.stop()
	})
	for _, name := range slices.Sorted(maps.Keys(crowds)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { crowdOf(t, name, crowds[name], calm) })
		})
	}
}

// mix returns kinds of Services in random order, some of them more often than others.
func mix(seed uint64) []string {
	random := rand.New(rand.NewPCG(seed, 0))
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(troubles())) {
		kinds = append(kinds, slices.Repeat([]string{kind}, random.IntN(8))...)
	}
	if len(kinds) < 2 {
		return mix(seed + 1<<32)
	}
	random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	return kinds
}

func crowdOf(t *testing.T, name string, kinds []string, calm map[string]time.Duration) {
	t.Helper()
	count := *crowdSize
	if len(kinds) == 1 {
		count /= 10
	}
	w := newCrowdedWorld(t)
	s := w.observeRequests()
	w.crowd(count, kinds)
	random := rand.New(rand.NewPCG(*seed, 0))
	longest := w.series(s, func() {
		for range 10 {
			w.touch(fmt.Sprintf("c%d", random.IntN(count)))
		}
	}, 0, 10*time.Minute, 20*time.Minute)
	var list []string
	for _, what := range slices.Sorted(maps.Keys(longest)) {
		list = append(list, fmt.Sprintf("%s after %.1f s (%.1f)", what, longest[what].Seconds(), calm[what].Seconds()))
		if longest[what] > 2*calm[what] {
			t.Errorf("%s after %s, want at most twice %s", what, longest[what], calm[what])
		}
	}
	figure(t, "%d services %s (and without them): %s", count, name, strings.Join(list, ", "))
	w.stop()
	for _, v := range w.violations {
		t.Error(v)
	}
}

// touch changes what a Service of the crowd asks for.
func (w *world) touch(name string) {
	w.t.Helper()
	services := w.api.CoreV1().Services(crowded)
	w.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		svc, err := services.Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, annotation+"tags", fmt.Sprintf("touched=%d", time.Now().Unix()))
		_, err = services.Update(w.t.Context(), svc, metav1.UpdateOptions{})
		return err
	}))
}

// TestAbandonedGroups: groups that the Services of one namespace have left take one turn against the others, as those in use
// do.
func TestAbandonedGroups(t *testing.T) {
	measure := func(groups int) (longest map[string]time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			w := newCrowdedWorld(t)
			s := w.observeRequests()
			w.crowd(groups, []string{"in many ingress groups"})
			w.settle(0)
			for i := range groups {
				w.must(w.api.CoreV1().Services(crowded).Delete(t.Context(), fmt.Sprintf("c%d", i), metav1.DeleteOptions{}))
			}
			w.settle(0)
			longest = w.series(s, func() {}, slices.Repeat([]time.Duration{11 * time.Minute}, 2)...)
			w.stop()
		})
		return longest
	}
	calm, busy := measure(0), measure(config.DefaultMaxGroups-1)
	for what, d := range busy {
		if t.Logf("%s after %s (%s)", what, d, calm[what]); d > 2*calm[what] {
			t.Errorf("%s after %s, want at most twice %s", what, d, calm[what])
		}
	}
}

// TestRestlessNode: a Node that leaves and joins its groups all the time delays no Service of these groups for long, and
// when it leaves after it has come to rest, it leaves at once.
func TestRestlessNode(t *testing.T) {
	const groups = 20
	var names []string
	for i := range groups {
		names = append(names, fmt.Sprintf("crowd-%d", i))
	}
	all := strings.Join(names, ",")
	for name, leave := range map[string]func(*corev1.Node){
		"annotated with false": func(n *corev1.Node) { n.Annotations[ingressNode] = "false" },
		"marked for others":    func(n *corev1.Node) { n.Annotations[ingressNode] = "others" },
		"excluded":             func(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "" },
		"scaled down": func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { restless(t, name, all, groups, leave) }) })
	}
}

func restless(t *testing.T, name, all string, groups int, leave func(*corev1.Node)) {
	t.Helper()
	w := newCrowdedWorld(t)
	w.crowd(groups, []string{"in many ingress groups"})
	w.settle(0)
	update := func(leaves bool) {
		w.updateNode("node-2", "", func(node *corev1.Node) {
			node.Annotations = map[string]string{ingressNode: all}
			delete(node.Labels, corev1.LabelNodeExcludeBalancers)
			if node.Spec.Taints = nil; leaves {
				leave(node)
			}
		})
	}
	stop := make(chan struct{})
	var toggles sync.WaitGroup
	toggles.Go(func() {
		for leaves := true; ; leaves = !leaves {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				update(leaves)
			}
		}
	})
	time.Sleep(time.Minute)
	var longest time.Duration
	for i, group := range []string{"crowd-0", "new"} {
		service := fmt.Sprintf("in-%d", i)
		w.service(service, func(svc *corev1.Service) {
			svc.Namespace, svc.Annotations[annotation+"ingress-group"] = crowded, group
		})
		longest = max(longest, took(func() bool {
			svc, err := w.api.CoreV1().Services(crowded).Get(t.Context(), service, metav1.GetOptions{})
			w.must(err)
			return len(svc.Status.LoadBalancer.Ingress) > 0
		}))
	}
	close(stop)
	toggles.Wait()
	update(false)
	time.Sleep(10 * time.Minute)
	s, begin := w.observeRequests(), time.Now()
	update(true)
	left := took(func() bool { return s.any("PATCH /v1/node-groups/", begin) })
	figure(t, "a node of %d groups is %s every other second: a service is published after %.1f s; later, the node begins to leave after %.1f s",
		groups, name, longest.Seconds(), left.Seconds())
	if longest > time.Minute {
		t.Errorf("a service is published after %s, want at most a minute", longest)
	}
	if left > 2*time.Second {
		t.Errorf("the node begins to leave after %s, want at most two seconds", left)
	}
	w.stop()
	for _, v := range w.violations {
		t.Error(v)
	}
}
