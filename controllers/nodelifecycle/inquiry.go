package nodelifecycle

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"quaymaster.dev/controllers/machine"
	"quaymaster.dev/controllers/worker"
	"quaymaster.dev/internal/kube/brakes"
)

const (
	// grace is the age below which a Node is kept that the cloud does not know: its machine may be too new.
	grace = 10 * time.Minute
	// Without a record of its deletion, a machine is gone after answers authoritative answers over at least span.
	answers = 3
	span    = time.Minute
	// A Node that stays is asked about again after askBase; the delay doubles every time, up to askMax.
	askBase, askMax = span / (answers - 1), 10 * time.Minute
)

// inquiry is what is known about a Node whose machine may be gone. It is guarded by Controller.mu.
type inquiry struct {
	uid types.UID
	// held is the reason why the Node is kept; empty while that is being found out.
	held holdReason
	// absent is the number of consecutive answers that the cloud does not know the machine; first is the time of the
	// first one.
	absent int
	first  time.Time
	// next is the time before which the cloud is not asked again, and attempts counts how often it was.
	next     time.Time
	attempts int
	// finished says that the Node was deleted. The informer may have it a little longer.
	finished bool
}

// inquire finds out whether the machine is gone of a Node that is not ready, and deletes the Node if so. recorded says
// that the copy of the cloud has the record of the machine's deletion.
func (c *Controller) inquire(ctx context.Context, node *corev1.Node, recorded bool) (worker.Result, error) {
	now := c.o.Clock.Now()
	approved := node.Annotations[AnnotationAllowDeletion] == "true"
	q := c.update(node, func(*inquiry) {})
	if q.finished {
		return worker.Again(recheck), nil
	}
	if age := now.Sub(node.CreationTimestamp.Time); !recorded && !approved && age < grace {
		return worker.Again(grace - age), nil
	}
	if !recorded && !approved && node.Spec.ProviderID == "" {
		c.hold(node, unknownHostname, "The node has no provider ID, and no instance has its name. The node is kept "+
			"because this does not prove that its machine is gone; if it is gone, delete the node, or annotate it with "+
			AnnotationAllowDeletion+"=true")
		return worker.Done(), nil // until the Node or a machine of its name changes
	}
	limited := !approved && !Expected(node)
	if limited && !c.room(node) {
		return c.tooMany(ctx, node)
	}
	if wait := q.next.Sub(now); wait > 0 && !approved {
		return worker.Again(wait), nil
	}
	found, err := c.o.Machines.Ask(ctx, node)
	if err != nil {
		return worker.RetryAfter(c.delay(node, err)), nil
	}
	switch {
	case found != nil && found.State != machine.Deleted:
		// The cloud has just said that the machine exists.
		c.update(node, func(q *inquiry) { q.absent, q.held = 0, "" })
		return worker.Again(c.delay(node, nil)), nil
	case found == nil && !approved && !c.confirmed(node):
		c.note(node, unknownInstance)
		c.update(node, func(q *inquiry) { q.next = c.o.Clock.Now().Add(askBase) })
		return worker.Again(askBase), nil
	}
	if limited {
		ok, err := c.o.Brakes.Spend(ctx, brakes.NodeDeletions, string(node.UID), c.limit(), budget.Window)
		if err != nil {
			return worker.Done(), err
		}
		if !ok {
			return c.tooMany(ctx, node)
		}
	}
	if err := c.delete(ctx, node, found != nil); err != nil {
		return worker.Done(), err
	}
	c.finish(node)
	return worker.Done(), nil
}

// finish ends the inquiry about a Node that was deleted.
func (c *Controller) finish(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.cases[node.Name]; q != nil && q.uid == node.UID {
		q.finished = true
	}
}

// tooMany keeps a Node because too many others were deleted, and says so.
func (c *Controller) tooMany(ctx context.Context, node *corev1.Node) (worker.Result, error) {
	c.hold(node, tooMany, fmt.Sprintf("The cloud seems to have lost the machine of the node, and those of too many other "+
		"nodes, too. The node is kept; to delete it, annotate it with %s=true, or run quayctl resume %s",
		AnnotationAllowDeletion, brakes.NodeDeletions))
	if err := c.o.Brakes.Engage(ctx, brakes.NodeDeletions, brakeMessage); err != nil {
		klog.FromContext(ctx).Error(err, "Could not record that Nodes are kept")
	}
	return worker.Again(refill), nil
}

// update changes what is known about a Node, beginning with nothing, and returns it.
func (c *Controller) update(node *corev1.Node, change func(*inquiry)) inquiry {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.cases[node.Name]
	if q == nil || q.uid != node.UID {
		q = &inquiry{uid: node.UID}
		c.cases[node.Name] = q
	}
	change(q)
	return *q
}

// close ends an inquiry: the Node is ready, has a machine, or was deleted.
func (c *Controller) close(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cases, name)
}

func (c *Controller) known(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cases[name] != nil
}

// wake makes the next inquiry ask the cloud, however recently it was asked.
func (c *Controller) wake(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.cases[name]; q != nil {
		q.next = time.Time{}
	}
}

// confirmed counts an answer that the cloud does not know the machine, and reports whether there are enough of them.
func (c *Controller) confirmed(node *corev1.Node) bool {
	now := c.o.Clock.Now()
	q := c.update(node, func(q *inquiry) {
		if q.absent == 0 {
			q.first = now
		}
		q.absent++
	})
	return q.absent >= answers && now.Sub(q.first) >= span
}

// delay returns the time after which to ask again about a Node that stays for now, which becomes longer each time.
func (c *Controller) delay(node *corev1.Node, reason error) time.Duration {
	var wait time.Duration
	c.update(node, func(q *inquiry) {
		wait = min(askBase<<min(q.attempts, 10), askMax)
		q.attempts++
		q.next = c.o.Clock.Now().Add(wait)
	})
	if reason != nil {
		klog.Background().V(1).Info("Nothing is known for certain about the machine of a Node, which is kept",
			"node", klog.KObj(node), "reason", reason, "askAgainIn", wait)
	}
	return wait
}
