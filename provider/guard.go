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

// holdReason is why a Node is not reported gone, as metrics name it.
type holdReason string

const (
	// unknownInstance: the cloud does not know the Node's instance, and has no tombstone of it.
	unknownInstance holdReason = "unknown-instance"
	// unknownHostname: the Node has no provider ID, and no instance bears its name.
	unknownHostname holdReason = "unknown-hostname"
	// tooMany: the instance is deleted, as too many others are.
	tooMany holdReason = "too-many"
)

func holdReasons() []holdReason { return []holdReason{unknownInstance, unknownHostname, tooMany} }

// eventHeld is the Event that tells why a Node stays.
const eventHeld = "DeletionHeld"

var heldDeletions = prometheus.NewDesc("quaymaster_node_deletions_held",
	"Nodes that are not deleted although the cloud seems to have lost their machines, by why they stay.", []string{"reason"}, nil)

// guard decides which Nodes stay although the cloud says that they have no machine, and keeps them in mind.
type guard struct {
	recorder record.EventRecorder
	clock    clock.PassiveClock

	mu sync.Mutex
	// nodes is nil as long as nobody knows the Nodes.
	nodes corelisters.NodeLister
	// held are the Nodes that stay, by name.
	held   map[string]hold
	budget budget
}

// hold is a Node that stays.
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

// hold notes that a Node stays. Whoever looks at it is told once.
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

// mayGo tells whether a Node whose machine is deleted may be reported gone. Once one may not, none may until a person has said
// what is to become of those that stay: time alone proves nothing.
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
		// From a cache; without the others the budget is one.
		nodes, _ = g.nodes.List(labels.Everything())
	}
	return g.budget.spend(node.UID, nodes, g.clock.Now())
}

// release notes that the cloud has said what became of a Node's machine.
func (g *guard) release(node *corev1.Node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.held, node.Name)
}

// Describe is the first half of being a collector.
func (g *guard) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- heldDeletions }

// Collect counts the Nodes that stay.
func (g *guard) Collect(metrics chan<- prometheus.Metric) {
	g.mu.Lock()
	count := g.count()
	g.mu.Unlock()
	for _, reason := range holdReasons() {
		metrics <- prometheus.MustNewConstMetric(heldDeletions, prometheus.GaugeValue, float64(count[reason]), string(reason))
	}
}

// count forgets what is settled and counts the rest, by reason. It is called with the lock held.
func (g *guard) count() map[holdReason]int {
	maps.DeleteFunc(g.held, g.settled)
	count := map[holdReason]int{}
	for _, h := range g.held {
		count[h.reason]++
	}
	return count
}

// settled tells whether the question of a Node has gone away: nobody asks for one that is ready again or was deleted.
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
