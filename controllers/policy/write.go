package policy

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/controllers/worker"
	"quaymaster.dev/internal/kube/policystore"
	engine "quaymaster.dev/internal/rules/policy"
)

// written is the status of a version of a policy.
type written struct {
	uid     types.UID
	version string
	status  v1alpha1.PolicyStatus
}

// write writes the status of a policy.
func (c *Controller) write(ctx context.Context, key engine.Key) worker.Result {
	err := c.writeStatus(ctx, key)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return worker.Done()
	case apierrors.IsConflict(err):
		// The Store reports the newer policy, or has already done so.
		return worker.Retry()
	default:
		if !errors.Is(ctx.Err(), context.Canceled) {
			klog.FromContext(ctx).Error(err, "Could not write the status of a policy, will retry",
				"policy", klog.KRef(key.Namespace, key.Name), "kind", key.Kind)
		}
		return worker.Retry()
	}
}

// writeStatus writes the status of a policy if it differs from its current one.
func (c *Controller) writeStatus(ctx context.Context, key engine.Key) error {
	entry, before, after := c.due(key)
	if entry == nil {
		return nil
	}
	version, err := c.o.Status.ApplyStatus(ctx, key, before.version, after)
	if err != nil {
		return err
	}
	c.keep(key, written{uid: entry.UID, version: version, status: after})
	if eventType, reason, message := announce(before.status, after); message != "" {
		c.o.Recorder.Event(reference(key, entry), eventType, reason, message)
	}
	klog.FromContext(ctx).V(2).Info("Wrote the status of a policy",
		"policy", klog.KRef(key.Namespace, key.Name), "kind", key.Kind, "services", after.Services, "violating", after.Violating)
	return nil
}

// due returns a policy with its current status and the wanted one; entry is nil if there is nothing to write. That is
// so, too, while the Services have not been validated against the current policy: its status is written afterwards.
func (c *Controller) due(key engine.Key) (entry *policystore.Entry, before written, after v1alpha1.PolicyStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, exists := c.o.Store.Entry(key)
	if !exists || c.applied[key] != entry.Policy {
		return nil, before, after
	}
	before = c.latest(key, entry)
	before.status = own(&before.status)
	after = decide(c.accepted(entry), entry, c.ledger.sums(key), before.status, metav1.NewTime(c.o.Clock.Now()))
	if equality.Semantic.DeepEqual(before.status, after) {
		return nil, before, after
	}
	return entry, before, after
}

// latest returns the current status of a policy, which the Store may not have yet.
func (c *Controller) latest(key engine.Key, entry *policystore.Entry) written {
	if last, ok := c.written[key]; ok && last.uid == entry.UID {
		order, err := resourceversion.CompareResourceVersion(last.version, entry.ResourceVersion)
		if err == nil && order > 0 {
			return last
		}
	}
	delete(c.written, key)
	return written{uid: entry.UID, version: entry.ResourceVersion, status: entry.Status}
}

func (c *Controller) keep(key engine.Key, w written) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.applied[key] != nil {
		c.written[key] = w
	}
}
