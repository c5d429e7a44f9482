package provider

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// holdReason is the reason why a Node is not reported as gone. It is a label value of metrics.
type holdReason string

const (
	// unknownInstance: the cloud has neither the Node's instance nor a tombstone of it.
	unknownInstance holdReason = "unknown-instance"
	// unknownHostname: the Node has no provider ID, and no instance has its name.
	unknownHostname holdReason = "unknown-hostname"
	// tooMany: the instance is deleted, but so are too many others.
	tooMany holdReason = "too-many"
)

func holdReasons() []holdReason { return []holdReason{unknownInstance, unknownHostname, tooMany} }

// eventHeld is the reason of the Event that explains why a Node is kept.
const eventHeld = "DeletionHeld"

var heldDeletions = prometheus.NewDesc("quaymaster_node_deletions_held",
	"Nodes that are kept although the cloud reports no machine for them, by reason.", []string{"reason"}, nil)

// guard decides which Nodes are kept although the cloud reports no machine for them, and remembers them. It is only for
// the stock controllers, which delete what a provider does not find; ours decide in controllers/nodelifecycle.
type guard struct {
	recorder record.EventRecorder
	clock    clock.PassiveClock

	mu sync.Mutex
	// nodes is nil until setNodes is called.
	nodes corelisters.NodeLister
	// held has the Nodes that are kept, by name.
	held   map[string]hold
	budget budget
}

// hold identifies a Node that is kept.
type hold struct {
	uid    types.UID
	reason holdReason
}

var _ prometheus.Collector = (*guard)(nil)

func newGuard(recorder record.EventRecorder, c clock.PassiveClock) *guard {
	if c == nil {
		c = clock.RealClock{}
	}
	return &guard{recorder: recorder, clock: c, held: map[string]hold{}, budget: budget{spent: map[types.UID]time.Time{}}}
}

func (g *guard) setNodes(nodes corelisters.NodeLister) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes = nodes
}

// hold records that a Node is kept, and emits one Event about it.
func (g *guard) hold(node *corev1.Node, reason holdReason, message string) {
	g.mu.Lock()
	now := hold{uid: node.UID, reason: reason}
	known := g.held[node.Name] == now
	g.held[node.Name] = now
	g.mu.Unlock()
	if !known && g.recorder != nil {
		g.recorder.Event(node, corev1.EventTypeWarning, eventHeld, message)
	}
}

// mayGo reports whether a Node whose machine is deleted may be reported as gone. Once the budget is exceeded, no Node
// may until an operator has decided about those that are kept: the passing of time alone proves nothing.
func (g *guard) mayGo(node *corev1.Node) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if expected(node) {
		return true
	}
	if g.count()[tooMany] > 0 {
		return false
	}
	var nodes []*corev1.Node
	if g.nodes != nil {
		// The lister reads a cache. Without it, the budget is one Node.
		nodes, _ = g.nodes.List(labels.Everything())
	}
	return g.budget.spend(node.UID, nodes, g.clock.Now())
}

// release records that a Node need not be kept any longer.
func (g *guard) release(node *corev1.Node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.held, node.Name)
}

// Describe implements prometheus.Collector.
func (g *guard) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- heldDeletions }

// Collect implements prometheus.Collector.
func (g *guard) Collect(metrics chan<- prometheus.Metric) {
	g.mu.Lock()
	count := g.count()
	g.mu.Unlock()
	for _, reason := range holdReasons() {
		metrics <- prometheus.MustNewConstMetric(heldDeletions, prometheus.GaugeValue, float64(count[reason]), string(reason))
	}
}

// count forgets settled Nodes and counts the others by reason. The caller holds the lock.
func (g *guard) count() map[holdReason]int {
	maps.DeleteFunc(g.held, g.settled)
	count := map[holdReason]int{}
	for _, h := range g.held {
		count[h.reason]++
	}
	return count
}

// settled reports whether a Node need not be kept any longer because it is ready again or was deleted: the controllers
// no longer ask about such a Node.
func (g *guard) settled(name string, h hold) bool {
	if g.nodes == nil {
		return false
	}
	node, err := g.nodes.Get(name)
	return err != nil || node.UID != h.uid || ready(node)
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
