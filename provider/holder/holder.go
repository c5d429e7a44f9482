// Package holder makes sure that this cluster talks to its own cloud, and that of several clusters with the same UID only
// one writes to it. The cluster remembers the id of its cloud. Clusters that were restored from the same backup share the
// UIDs by which the cloud's objects are owned; a record in the cloud says which of them holds the UID.
package holder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/clusterca"
	"quaymaster.dev/provider/ownership"
)

const (
	// heldPeriod is how often the holder reads the record: its writes are rejected at once if it has lost it.
	heldPeriod = 30 * time.Minute
	// identityPeriod is how often the holder compares its identity with the one in the record.
	identityPeriod = time.Minute
	// refusedPeriod is how often a cluster that may not write reads the record.
	refusedPeriod = 30 * time.Second
	// retryBase and retryMax bound the delay after a failed read.
	retryBase, retryMax = time.Second, 30 * time.Second
	// attempts bounds the tries of a write of the record that meets other writers.
	attempts = 3
)

// eventHeld is the reason of the Event that ends the one about a refusal. Events are about the namespace kube-system,
// whose UID is the cluster's.
const eventHeld = "ClusterUIDHeld"

// Cloud is the part of the cloud's API that a Holder needs.
type Cloud interface {
	Records
	// Identity reads what identifies the cloud.
	Identity(ctx context.Context) (*cloudv1.Meta, error)
	// Expect makes calls fail unless the cloud has that identity, and a state that includes the revision.
	Expect(id, revision string)
	// Expects reports whether it is known which state the cloud must have.
	Expects() bool
	// ListLoadBalancers lists load balancers.
	ListLoadBalancers(ctx context.Context, o cloudapi.ListOptions) (*cloudv1.List[cloudv1.LoadBalancer], error)
}

// Records are the records of holders in the cloud.
type Records interface {
	// Holder reads the record of a cluster UID.
	Holder(ctx context.Context, clusterUID string, o cloudapi.ReadOptions) (*cloudv1.ClusterHolder, error)
	// ClaimHolder writes it.
	ClaimHolder(ctx context.Context, clusterUID string, s cloudv1.ClusterHolderSpec, o cloudapi.WriteOptions) (
		*cloudv1.ClusterHolder, error)
}

// Options holds the dependencies of a Holder.
type Options struct {
	// Cloud has the records.
	Cloud Cloud
	// Memory remembers the cloud of the cluster; if nil, any cloud is the right one.
	Memory Memory
	// ClusterUID is the UID to hold, ClusterID the name of the cluster in the cloud.
	ClusterUID, ClusterID string
	// Identity returns what distinguishes this cluster from others with its UID.
	Identity func() (clusterca.Identity, error)
	// ClaimedBy names this process in the record.
	ClaimedBy string
	// Recorder emits Events about the namespace kube-system.
	Recorder record.EventRecorder
	// Clock defaults to the real clock.
	Clock clock.Clock
}

// Memory is where a cluster remembers its cloud.
type Memory interface {
	// CloudID returns the id of the cluster's cloud, which is empty at first.
	CloudID(ctx context.Context) (string, error)
	// Remember stores it.
	Remember(ctx context.Context, cloudID string) error
}

// Holder identifies the cluster's cloud and claims the cluster's UID. It withholds calls from a different cloud, and
// writes if another cluster holds the UID.
type Holder struct {
	Options

	// onHeld are called when the cluster may write after it was refused, onLoss when the cloud may have lost something.
	onHeld []func()
	onLoss []func(*cloudv1.Meta)

	// wake ends the pause of Run.
	wake chan struct{}
	// checking has an element while the record is read and written. Unlike a mutex, it is not waited for by those whose
	// context has ended.
	checking chan struct{}

	mu sync.Mutex
	// known is true if the record has been read, and there is no reason to doubt it.
	known bool
	// refusal is why this cluster may not write, or nil. It is the last one known.
	refusal *RefusedError
	// own is the identity by which the cluster was recognized, at the time of the last read.
	own clusterca.Identity
	at  time.Time
}

// New returns a Holder. It does no I/O.
func New(o Options) *Holder {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Holder{Options: o, wake: make(chan struct{}, 1), checking: make(chan struct{}, 1)}
}

// OnHeld calls f whenever the cluster may write after it was refused, because what was refused would wait for its next
// try. It must be called before Run, and f must not block.
func (h *Holder) OnHeld(f func()) { h.onHeld = append(h.onHeld, f) }

// OnLoss calls f before the first call to the cloud, and whenever the cloud may have lost something, before the next call:
// it was restored from a backup. f gets what the cloud reports about itself. It must be called before Run, and f must not
// block.
func (h *Holder) OnLoss(f func(*cloudv1.Meta)) { h.onLoss = append(h.onLoss, f) }

// Run claims the UID and follows its record until ctx ends.
func (h *Holder) Run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithName("holder")
	delay := backoff()
	for ctx.Err() == nil {
		pause := identityPeriod
		err := h.refresh(ctx)
		switch {
		case errors.As(err, new(*RefusedError)):
			pause, delay = refusedPeriod, backoff()
		case err != nil:
			if ctx.Err() == nil {
				logger.Error(err, "Could not find out which cluster holds the cluster UID, will retry")
			}
			pause = delay.Step()
		default:
			delay = backoff()
		}
		timer := h.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-h.wake:
		case <-timer.C():
		}
		timer.Stop()
	}
}

func backoff() wait.Backoff {
	return wait.Backoff{Duration: retryBase, Factor: 2, Jitter: 0.2, Steps: 10, Cap: retryMax}
}

// Identify makes sure that the cloud is the cluster's, so that calls may be sent to it.
func (h *Holder) Identify(ctx context.Context) error {
	if err := h.lockCheck(ctx); err != nil {
		return err
	}
	defer h.unlockCheck()
	// Run asks a wrong cloud again.
	if known, err := h.state(); known && reasonOf(err) == ReasonOtherCloud {
		return err
	}
	return h.identify(ctx)
}

// identify finds out whether the cloud is the cluster's, unless that is known. The caller has called lockCheck.
func (h *Holder) identify(ctx context.Context) error {
	if h.Memory == nil || h.Cloud.Expects() {
		return nil
	}
	meta, err := h.Cloud.Identity(cloudapi.WithClass(ctx, cloudapi.Safety))
	if err != nil {
		return fmt.Errorf("identify the cloud: %w", err)
	}
	known, err := h.Memory.CloudID(ctx)
	if err == nil && known == "" {
		err = h.Memory.Remember(ctx, meta.ID)
	}
	if err != nil {
		return err
	}
	if known != "" && known != meta.ID {
		refusal := otherCloud(meta.ID, known)
		h.note(ctx, refusal)
		return refusal
	}
	for _, f := range h.onLoss {
		f(meta)
	}
	h.Cloud.Expect(meta.ID, meta.Revision)
	klog.FromContext(ctx).Info("Identified the cloud", "cloudID", meta.ID, "revision", meta.Revision)
	return nil
}

func reasonOf(err error) string {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused.Reason
	}
	return ""
}

// Withhold returns an error if this cluster may not write to the cloud, or if that is unknown and cannot be found out.
func (h *Holder) Withhold(ctx context.Context) error {
	if known, err := h.state(); known {
		return err
	}
	if err := h.lockCheck(ctx); err != nil {
		return err
	}
	defer h.unlockCheck()
	if known, err := h.state(); known {
		return err
	}
	return h.check(ctx)
}

func (h *Holder) lockCheck(ctx context.Context) error {
	select {
	case h.checking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Holder) unlockCheck() { <-h.checking }

// Doubt makes the next write wait for another read of the record, because the cloud has rejected a write.
func (h *Holder) Doubt() {
	h.mu.Lock()
	h.known = false
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Fence adds the fingerprint of this cluster to the fence of a leader, <cluster-uid>;epoch=<n>.
func (h *Holder) Fence(leader string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if leader == "" || h.own.Proven == "" {
		return leader
	}
	return leader + ";holder=" + h.own.Proven
}

// state returns whether it is known if this cluster may write, and if so, why it may not.
func (h *Holder) state() (known bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known && h.refusal != nil {
		return true, h.refusal
	}
	return h.known, nil
}

// refresh reads the record if it is not known that it is as it should be.
func (h *Holder) refresh(ctx context.Context) error {
	if err := h.lockCheck(ctx); err != nil {
		return err
	}
	defer h.unlockCheck()
	own, err := h.Identity()
	h.mu.Lock()
	current := err == nil && h.known && h.refusal == nil && h.Clock.Since(h.at) < heldPeriod && own.Proven == h.own.Proven &&
		slices.Equal(own.Accepted, h.own.Accepted)
	h.mu.Unlock()
	if current {
		return nil
	}
	return h.check(ctx)
}

// check identifies the cloud, reads the record, and claims or renews it if this cluster may. The caller has called
// lockCheck.
func (h *Holder) check(ctx context.Context) error {
	if err := h.identify(ctx); err != nil {
		return err
	}
	ctx = cloudapi.WithIdentified(ctx)
	own, err := h.Identity()
	if err != nil {
		return fmt.Errorf("identify the cluster: %w", err)
	}
	h.mu.Lock()
	// Until the record has been read, it is not known to have the identity.
	h.own, h.at = own, time.Time{}
	h.mu.Unlock()
	for range attempts {
		held, err := Read(cloudapi.WithClass(ctx, cloudapi.Safety), h.Cloud, h.ClusterUID)
		if cloudapi.HasCode(err, cloudv1.CodeUnsupported) {
			h.note(ctx, nil) // the cloud keeps no such records
			return nil
		}
		if err != nil {
			return err
		}
		step, refusal := decide(held, h.ClusterUID, own, h.ClusterID)
		if step == stepClaim {
			if refusal, err = h.checkNames(ctx); err != nil {
				return err
			}
		}
		if refusal != nil {
			h.note(ctx, refusal)
			return refusal
		}
		if step == stepNone {
			h.note(ctx, nil)
			return nil
		}
		err = Claim(ctx, h.Cloud, held, h.ClusterUID, cloudv1.ClusterHolderSpec{
			Name: h.ClusterID, Fingerprints: own.Accepted, ClaimedBy: h.ClaimedBy,
		})
		if err == nil {
			klog.FromContext(ctx).Info("Holding the cluster UID", "clusterUID", h.ClusterUID, "fingerprints", own.Accepted)
			h.note(ctx, nil)
			return nil
		}
		if !cloudapi.HasCode(err, cloudv1.CodeStaleRevision) {
			return err
		}
	}
	return errors.New("the record of the holder keeps changing")
}

// checkNames returns a refusal if the cluster's load balancers are named after another clusterID.
func (h *Holder) checkNames(ctx context.Context) (*RefusedError, error) {
	list, err := h.Cloud.ListLoadBalancers(ctx, cloudapi.ListOptions{Tags: map[string]string{ownership.ClusterUID: h.ClusterUID}})
	if err != nil {
		return nil, fmt.Errorf("read the names of the cluster's load balancers: %w", err)
	}
	return renamed(list.Items, h.ClusterID), nil
}

// note remembers the result of a check, and reports it if it is another than the last one.
func (h *Holder) note(ctx context.Context, refusal *RefusedError) {
	h.mu.Lock()
	before := h.refusal
	h.known, h.refusal, h.at = true, refusal, h.Clock.Now()
	h.mu.Unlock()
	about := &corev1.ObjectReference{
		Kind: "Namespace", APIVersion: "v1", Name: metav1.NamespaceSystem, UID: types.UID(h.ClusterUID),
	}
	switch {
	case refusal != nil && (before == nil || before.message != refusal.message):
		klog.FromContext(ctx).Error(refusal, "This cluster may not write to the cloud")
		h.Recorder.Event(about, corev1.EventTypeWarning, refusal.Reason, refusal.message)
	case refusal == nil && before != nil:
		klog.FromContext(ctx).Info("This cluster may write to the cloud again", "clusterUID", h.ClusterUID)
		h.Recorder.Event(about, corev1.EventTypeNormal, eventHeld, "this cluster holds its UID in the cloud and may write")
		for _, f := range h.onHeld {
			f()
		}
	}
}
