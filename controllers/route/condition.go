package route

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/controllers/worker"
)

const (
	// eventFailed is the reason of Events, as of Kubernetes' own route controller.
	eventFailed = "FailedToCreateRoute"
	// messageCreated is the message of the condition, as of Kubernetes' own route controller.
	messageCreated = "RouteController created a route"
	// conditionWorkers is how many conditions are written at the same time, so that Nodes do not wait for each other.
	conditionWorkers = 4
	// conditionTimeout bounds the write of one condition.
	conditionTimeout = 15 * time.Second
)

// conditions writes the condition NetworkUnavailable of Nodes, each with retries of its own.
type conditions struct {
	client   typedcorev1.NodeInterface
	nodes    corelisters.NodeLister
	recorder record.EventRecorder
	clock    clock.Clock
	queue    *worker.Queue[string]

	// wanted has the conditions of Nodes, by name.
	wanted sync.Map
}

type wanted struct {
	uid             types.UID
	status          corev1.ConditionStatus
	reason, message string
}

func newConditions(
	client typedcorev1.NodeInterface, nodes corelisters.NodeLister, recorder record.EventRecorder, clock clock.WithTicker,
) *conditions {
	c := &conditions{client: client, nodes: nodes, recorder: recorder, clock: clock}
	c.queue = worker.New(worker.Options[string]{
		Name: name + "-conditions", Workers: conditionWorkers, RetryBase: retryBase, RetryMax: retryMax,
		Timeout: conditionTimeout, Process: c.process, Clock: clock,
	})
	return c
}

// set makes the condition of a Node follow from the problems of its routes. New problems, and those that another
// attempt has met, are also recorded as an Event.
func (c *conditions) set(n *corev1.Node, problems []problem, attempted bool) {
	w := wanted{uid: n.UID, status: corev1.ConditionFalse, reason: reasonCreated, message: messageCreated}
	if len(problems) > 0 {
		messages := make([]string, len(problems))
		for i, p := range problems {
			messages[i] = p.Message
		}
		w.status, w.reason, w.message = corev1.ConditionTrue, problems[0].Reason, strings.Join(messages, "; ")
	}
	last, _ := c.wanted.Swap(n.Name, w)
	before, _ := last.(wanted)
	if w.status == corev1.ConditionTrue && (attempted || !w.same(before)) {
		c.recorder.Event(n, corev1.EventTypeWarning, eventFailed, w.message)
	}
	if !w.holds(n) {
		c.queue.Add(n.Name)
	}
}

// forgetAllBut forgets Nodes that do not exist any more.
func (c *conditions) forgetAllBut(nodes map[string]*corev1.Node) {
	for key := range c.wanted.Range {
		if name, ok := key.(string); ok && nodes[name] == nil {
			c.wanted.Delete(name)
		}
	}
}

// same reports whether both have the same meaning. Messages may contain what differs with every attempt.
func (w wanted) same(other wanted) bool {
	return w.uid == other.uid && w.status == other.status && w.reason == other.reason
}

// holds reports whether the Node already has the condition.
func (w wanted) holds(n *corev1.Node) bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeNetworkUnavailable {
			return w.same(wanted{uid: n.UID, status: condition.Status, reason: condition.Reason})
		}
	}
	return false
}

func (c *conditions) process(ctx context.Context, name string) worker.Result {
	last, _ := c.wanted.Load(name)
	w, ok := last.(wanted)
	n, err := c.nodes.Get(name)
	if !ok || err != nil || n.UID != w.uid || w.holds(n) {
		return worker.Done()
	}
	err = c.write(ctx, n, w)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// A conflict means that the Node is another one now.
		return worker.Done()
	}
	klog.FromContext(ctx).Error(err, "Could not write the condition of node, will retry", "node", klog.KObj(n))
	return worker.Retry()
}

func (c *conditions) write(ctx context.Context, n *corev1.Node, w wanted) error {
	now := metav1.NewTime(c.clock.Now())
	condition := corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: w.status, Reason: w.reason, Message: w.message,
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	for _, before := range n.Status.Conditions {
		if before.Type == condition.Type && before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": n.UID},
		"status":   map[string]any{"conditions": []corev1.NodeCondition{condition}},
	})
	if err != nil {
		return fmt.Errorf("encode the condition: %w", err)
	}
	_, err = c.client.PatchStatus(ctx, n.Name, patch)
	return err
}
