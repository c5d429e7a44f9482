package nodelifecycle

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// holdReason is the reason why a Node is kept. It is a label value of metrics.
type holdReason string

const (
	// unknownInstance: the cloud has neither the Node's instance nor a record of its deletion, and has not said so often
	// enough.
	unknownInstance holdReason = "unknown-instance"
	// unknownHostname: the Node has no provider ID, and no instance has its name.
	unknownHostname holdReason = "unknown-hostname"
	// stillReady: the instance was deleted, but the Node is ready.
	stillReady holdReason = "still-ready"
	// tooMany: the instance is gone, but so are too many others.
	tooMany holdReason = "too-many"
)

// eventHeld is the reason of the Event that explains why a Node is kept.
const eventHeld = "DeletionHeld"

// hold records that a Node is kept, and emits one Event about it.
func (c *Controller) hold(node *corev1.Node, reason holdReason, message string) {
	if c.note(node, reason) {
		c.recorder.Event(node, corev1.EventTypeWarning, eventHeld, message)
	}
}

// note records the reason why a Node is kept, and reports whether it is new.
func (c *Controller) note(node *corev1.Node, reason holdReason) bool {
	var before holdReason
	c.update(node, func(q *inquiry) { before, q.held = q.held, reason })
	return before != reason
}

// count counts the Nodes that are kept, by reason.
func (c *Controller) count() map[holdReason]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := map[holdReason]int{}
	for _, q := range c.cases {
		if q.held != "" {
			count[q.held]++
		}
	}
	return count
}

var held = prometheus.NewDesc("quaymaster_node_deletions_held",
	"Nodes that are kept although the cloud reports no machine for them, by reason.", []string{"reason"}, nil)

var _ prometheus.Collector = (*Controller)(nil)

// Describe implements prometheus.Collector.
func (c *Controller) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- held
	c.queue.Describe(descriptions)
}

// Collect implements prometheus.Collector.
func (c *Controller) Collect(metrics chan<- prometheus.Metric) {
	c.queue.Collect(metrics)
	if !c.running.Load() {
		return
	}
	count := c.count()
	for _, reason := range []holdReason{unknownInstance, unknownHostname, stillReady, tooMany} {
		metrics <- prometheus.MustNewConstMetric(held, prometheus.GaugeValue, float64(count[reason]), string(reason))
	}
}
