package safety

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/test/harness/soak"
)

var (
	seed      = flag.Uint64("seed", 1, "seed of the first sequence of TestRandom and of the mixes of TestCrowd")
	sequences = flag.Uint64("sequences", 3, "how many sequences TestRandom plays")
	length    = flag.Int("length", 60, "how many steps a sequence of TestRandom has")
	only      = flag.String("only", "", "numbers of the steps that TestRandom plays, separated by commas; empty means all")
	kinds     = flag.String("kinds", defaultKinds, "kinds of steps that TestRandom plays besides the simple ones, separated by commas")
	logs      = flag.Bool("logs", false, "show the logs of the controllers in TestRandom")
)

// defaultKinds are the kinds of steps that TestRandom plays by default.
const defaultKinds = "machines,lease,orphans,etcd,cloud,both,endpoint,clusters,clone"

// counted is what TestRandom counts, in the order in which it says so.
const counted = "sequences steps faults kills leases-lost etcd-restores cloud-restores wrong-endpoints clusters violations"

// services is how many different names the Services of a sequence have.
const services = 6

// TestRandom plays random sequences of what users, nodes, the cloud and its faults do, with the controllers being
// killed in between, and checks every promise after every write and in the end. What happens in a sequence depends on
// its seed alone; only the order of what happens at the same time differs from run to run.
func TestRandom(t *testing.T) {
	if !*logs {
		klog.SetLogger(logr.Discard())
		t.Cleanup(klog.ClearLogger)
	}
	var total soak.Counts
	for n := range *sequences {
		s := *seed + n
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, size{nodes: 3, jobs: time.Second})
				q := &sequence{site: w.site, seed: s, clusters: []*member{{world: w, nodes: 3}}}
				q.play(t)
				total.Add(q.counts)
			})
		})
	}
	figure(t, "random sequences: seed=%d %s", *seed, total)
}

// sequence is a cloud with its clusters, and what happens in it.
type sequence struct {
	*site
	seed uint64
	// random is that of the current step.
	random *rand.Rand
	// clusters are those that use the cloud. The first one is there from the beginning.
	clusters []*member
	// backup is one of the cloud.
	backup *cloudBackup
	// wrong are the clouds to which endpoints lead by mistake, by their names.
	wrong  map[string]*site
	counts soak.Counts
	log    []string
}

// member is a cluster in a sequence.
type member struct {
	*world
	// first and nodes are the number of its first Node, less one, and how many were added so far.
	first, nodes int
	backup       *etcdBackup
}

func (q *sequence) play(t *testing.T) {
	t.Helper()
	for name := range strings.FieldsSeq(counted) {
		q.counts.Note(name, 0)
	}
	q.counts.Note("sequences", 1)
	q.counts.Note("clusters", 1)
	first := q.clusters[0]
	first.start()
	first.settle(0)
	first.backUp()
	q.backUp()
	possible := q.possible()
	for _, n := range soak.Steps(*only, *length) {
		// Each step has random numbers of its own, so that the others stay the same without it.
		q.random = rand.New(rand.NewPCG(q.seed, uint64(n)))
		q.counts.Note("steps", 1)
		what := possible[q.random.IntN(len(possible))](q, q.clusters[q.random.IntN(len(q.clusters))])
		q.log = append(q.log, fmt.Sprintf("%s step %d: %s", time.Now().UTC().Format(time.TimeOnly), n, what))
		time.Sleep(q.pause())
		for _, c := range q.clusters {
			if c.process.died() {
				q.counts.Note("kills", 1)
				c.start()
			}
		}
	}
	q.end()
	for _, c := range first.ledger.clusters() {
		q.counts.Note("violations", len(c.violations))
		for _, v := range c.violations {
			t.Error(v)
		}
	}
	if t.Failed() {
		for _, line := range q.log {
			t.Log(line)
		}
	}
}

// end ends all faults, and checks what must hold once the controllers have finished their work.
func (q *sequence) end() {
	q.setFaults(nil)
	q.endCopies()
	for _, c := range q.clusters {
		c.astray.Store(nil)
		c.process.arm(0, false)
		c.heal()
	}
	// Every delay that a fault has caused must be over, the confirmation of an absence included.
	time.Sleep(3 * time.Hour)
	for _, c := range q.clusters {
		if c.process.died() {
			c.start()
			c.settle(3 * time.Hour)
		}
	}
	for _, c := range q.clusters {
		c.checkSettled()
	}
	for _, c := range q.clusters {
		c.stop()
	}
}

// heal makes the kubelets of all Nodes report that they are ready unless their machine is deleted, and resumes what a
// brake has stopped, as an operator does who has found that the cloud is right.
func (c *member) heal() {
	annotations := map[string]string{}
	for _, b := range brakes.All() {
		annotations[brakes.AnnotationResume(b.Name)] = time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	c.must(err)
	c.mu.Lock()
	c.resumed = time.Now()
	c.mu.Unlock()
	_, err = c.api.CoreV1().ConfigMaps(metav1.NamespaceSystem).
		Patch(c.t.Context(), brakes.ConfigMap, types.MergePatchType, patch, metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		c.must(err)
	}
	c.report()
}

// report makes the kubelets of all Nodes report that they are ready, and the cluster that those of deleted machines are
// unknown.
func (c *member) report() {
	list, err := c.api.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	c.must(err)
	running := c.runningMachines()
	for i := range list.Items {
		status := corev1.ConditionUnknown
		if running[list.Items[i].Name] {
			status = corev1.ConditionTrue
		}
		c.ready(list.Items[i].Name, status)
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

// step does something to a cluster or its cloud, and says what.
type step func(*sequence, *member) string

// possible returns the steps to choose from, each as often as its share.
func (q *sequence) possible() []step {
	enabled := q.enabled()
	var list []step
	for _, s := range []struct {
		share int
		kind  string
		step  step
	}{
		{5, "", (*sequence).ensure},
		{3, "", (*sequence).change},
		{2, "", (*sequence).remove},
		{2, "", (*sequence).flip},
		{1, "", (*sequence).join},
		{2, "", (*sequence).flicker},
		{2, "", (*sequence).arm},
		{2, "", (*sequence).fault},
		{1, "", (*sequence).repair},
		{1, "machines", (*sequence).deleteMachine},
		{1, "lease", (*sequence).loseLease},
		{1, "orphans", (*sequence).loseService},
		{1, "etcd", (*sequence).backUpEtcd},
		{1, "etcd", (*sequence).restoreEtcd},
		{1, "cloud", (*sequence).backUpCloud},
		{1, "cloud", (*sequence).restoreCloud},
		{1, "both", (*sequence).restoreBoth},
		{2, "endpoint", (*sequence).goAstray},
		{2, "endpoint", (*sequence).comeBack},
		{1, "clusters", (*sequence).addCluster},
		{1, "clone", (*sequence).clone},
	} {
		if s.kind == "" || slices.Contains(enabled, s.kind) {
			list = append(list, slices.Repeat([]step{s.step}, s.share)...)
		}
	}
	return list
}

// enabled returns the kinds of steps of the sequence: about half of them, because what is rare with all of them may be
// common with few.
func (q *sequence) enabled() []string {
	random := rand.New(rand.NewPCG(q.seed, math.MaxUint64))
	return slices.DeleteFunc(strings.Split(*kinds, ","), func(string) bool { return random.IntN(2) == 0 })
}

func (q *sequence) name() string { return fmt.Sprintf("s%d", q.random.IntN(services)) }

// changeable returns a Service that can still be changed, or nil.
func (c *member) changeable(name string) *corev1.Service {
	svc, err := c.api.CoreV1().Services(namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil || svc.DeletionTimestamp != nil {
		return nil
	}
	return svc
}

func (q *sequence) ensure(c *member) string {
	name := q.name()
	foreign := q.random.IntN(2)
	_, err := c.api.CoreV1().Services(namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	if err == nil {
		return name + " exists"
	}
	c.service(name, func(svc *corev1.Service) { svc.Finalizers = []string{foreignFinalizer}[:foreign] })
	return c.says("%s is created", name)
}

// says names the cluster to which something happens.
func (c *member) says(format string, args ...any) string {
	return fmt.Sprintf("cluster %s %s: ", c.clusterID, c.authority) + fmt.Sprintf(format, args...)
}

func (q *sequence) change(c *member) string {
	name := q.name()
	if c.changeable(name) == nil {
		return name + " cannot be changed"
	}
	qps := fmt.Sprint(1 + q.random.IntN(1000))
	c.updateService(name, func(svc *corev1.Service) { svc.Annotations[annotation+"listener-maxqps"] = qps })
	return c.says("%s asks for %s", name, qps)
}

func (q *sequence) remove(c *member) string {
	name := q.name()
	svc := c.changeable(name)
	if svc == nil {
		return name + " cannot be deleted"
	}
	c.deleteService(name)
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && !ours(svc) && slices.Contains(svc.Finalizers, sharedFinalizer) {
		c.updateService(name, withdraw)
	}
	return c.says("%s is deleted", name)
}

// flip changes the type of a Service, and gives it another class on the way back.
func (q *sequence) flip(c *member) string {
	name := q.name()
	class := []*string{nil, new(ownClass), new(otherClass)}[q.random.IntN(3)]
	svc := c.changeable(name)
	if svc == nil {
		return name + " cannot be changed"
	}
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		c.updateService(name, func(svc *corev1.Service) {
			if !ours(svc) {
				withdraw(svc)
			}
			svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil
		})
		return c.says("%s is no longer a load balancer", name)
	}
	c.updateService(name, func(svc *corev1.Service) { give(svc, class) })
	return c.says("%s is a load balancer of class %s", name, ptr.Deref(class, "(none)"))
}

func (q *sequence) join(c *member) string {
	if c.copied {
		return "a copy gets no nodes"
	}
	c.nodes++
	c.addNode(c.first + c.nodes)
	return c.says("node-%d joins", c.first+c.nodes)
}

func (q *sequence) node(c *member) string {
	return fmt.Sprintf("node-%d", c.first+1+q.random.IntN(c.nodes))
}

// flicker changes what a kubelet reports.
func (q *sequence) flicker(c *member) string {
	status := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}[q.random.IntN(3)]
	name := q.node(c)
	if _, err := c.api.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{}); err != nil {
		return name + " does not exist"
	}
	if !c.runningMachines()[name] {
		return name + " has no machine"
	}
	c.ready(name, status)
	return c.says("%s reports %s", name, status)
}

func (q *sequence) deleteMachine(c *member) string {
	name := q.node(c)
	if !c.runningMachines()[name] || c.copied {
		return name + " has no machine"
	}
	c.deleteMachine(name)
	c.ready(name, corev1.ConditionUnknown)
	return c.says("the machine of %s is deleted", name)
}

func (q *sequence) arm(c *member) string {
	n, after := 1+q.random.IntN(12), q.random.IntN(2) == 0
	c.process.arm(n, after)
	return c.says("the controllers will be killed at call %d, after it: %t", n, after)
}

// fault makes the cloud fail in some way until another step ends that.
func (q *sequence) fault(*member) string {
	q.counts.Note("faults", 1)
	names := faultNames()
	name := names[q.random.IntN(len(names))]
	q.setFaults(faults()[name](q.random))
	return "the cloud: " + name
}

func (q *sequence) repair(*member) string {
	q.setFaults(nil)
	return "the cloud works"
}
