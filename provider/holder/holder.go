// Package holder makes sure that this cluster talks to its own cloud, and that of several clusters with the same UID only
// one writes to it. The cluster remembers the id of its cloud. Clusters that were restored from the same backup share the
// UIDs by which the cloud's objects are owned; a record in the cloud says which of them holds the UID.
package holder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/kube/clusterca"
	"quaymaster.dev/internal/mycloud/cloudapi"
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
	// steadyFor is how long a cloud must stay the same for its next identification to be the first again.
	steadyFor = 2 * retryMax
	// attempts bounds the tries of a write of the record that meets other writers.
	attempts = 3
)

// errUnsteady is the error of calls that are not sent because the cloud was identified a moment ago, but has answered in
// another state since. Each identification makes the controllers read everything again.
var errUnsteady = fmt.Errorf("%w: it was in another state soon after it was identified, and is identified again within %s; if "+
	"this goes on, several servers with different states answer at the endpoint", cloudapi.ErrUnidentified, retryMax)

// eventHeld is the reason of the Event that ends the one about a refusal. Events are about the namespace kube-system,
// whose UID is the cluster's.
const eventHeld = "ClusterUIDHeld"

// Cloud is the part of the cloud's API that a Holder needs.
type Cloud interface {
	Records
	Identified
	// Expects reports whether it is known which state the cloud must have.
	Expects() bool
	// ListKnownLoadBalancers lists load balancers, also those that cannot be decoded.
	ListKnownLoadBalancers(ctx context.Context, o cloudapi.ListOptions) (*cloudv1.List[cloudv1.LoadBalancer], error)
}

// Records are the records of holders in the cloud.
type Records interface {
	// Holder reads the record of a cluster UID.
	Holder(ctx context.Context, clusterUID string) (*cloudv1.ClusterHolder, error)
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
	// doubts counts the reasons to read the record, from the beginning. began is their number when the current or last check
	// began, and settled that of the last check with a result: a doubt that arises during a check is not settled by it.
	doubts, began, settled int
	// refusal is why this cluster may not write, or nil. It is the last one known.
	refusal *RefusedError
	// own is the identity by which the cluster was recognized, at the time of the last read.
	own clusterca.Identity
	at  time.Time

	// identified is when the cloud was last identified, again when it may be identified again, and spacing the time between
	// if that happens often. Only those who have called lockCheck use them.
	identified, again time.Time
	spacing           wait.Backoff
}

// New returns a Holder. It does no I/O.
func New(o Options) *Holder {
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	return &Holder{Options: o, wake: make(chan struct{}, 1), checking: make(chan struct{}, 1), doubts: 1, spacing: backoff()}
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
				logger.Error(err, "Could not identify the cloud and the holder of the cluster UID, will retry")
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
	if known, err := h.state(); known && wrongCloud(err) {
		return err
	}
	return h.identify(ctx)
}

// identify finds out whether the cloud is the cluster's, unless that is known. The caller has called lockCheck.
func (h *Holder) identify(ctx context.Context) error {
	if h.Memory == nil || h.Cloud.Expects() {
		return nil
	}
	now := h.Clock.Now()
	if now.Before(h.again) {
		return errUnsteady
	}
	meta, known, err := identity(ctx, h.Cloud, h.Memory)
	if refusal, refused := errors.AsType[*RefusedError](err); refused {
		h.note(ctx, refusal)
	}
	if err == nil && known == "" {
		err = remember(ctx, h.Memory, meta.ID)
	}
	if err != nil {
		return err
	}
	for _, f := range h.onLoss {
		f(meta)
	}
	h.Cloud.Expect(meta.ID, meta.Revision)
	if h.again = now; now.Sub(h.identified) > steadyFor {
		h.spacing = backoff()
	} else {
		h.again = now.Add(h.spacing.Step())
	}
	h.identified = now
	klog.FromContext(ctx).Info("Identified the cloud", "cloudID", meta.ID, "revision", meta.Revision)
	return nil
}

// wrongCloud reports whether an error says that the cloud is not the cluster's.
func wrongCloud(err error) bool {
	refused, ok := errors.AsType[*RefusedError](err)
	return ok && refused.Reason == ReasonOtherCloud
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

// lockCheck begins a check, which unlockCheck ends.
func (h *Holder) lockCheck(ctx context.Context) error {
	select {
	case h.checking <- struct{}{}:
		h.mu.Lock()
		defer h.mu.Unlock()
		h.began = h.doubts
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Holder) unlockCheck() { <-h.checking }

// Doubt makes the next write wait for another read of the record, because the cloud has rejected a write.
func (h *Holder) Doubt() {
	h.mu.Lock()
	h.doubts++
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
	if !h.known() {
		return false, nil
	}
	if h.refusal != nil {
		return true, h.refusal
	}
	return true, nil
}

// known reports whether a check has had a result, and there was no doubt since. The caller holds the lock.
func (h *Holder) known() bool { return h.settled == h.doubts }

// refresh reads the record if it is not known that it is as it should be.
func (h *Holder) refresh(ctx context.Context) error {
	if err := h.lockCheck(ctx); err != nil {
		return err
	}
	defer h.unlockCheck()
	own, err := h.Identity()
	h.mu.Lock()
	current := err == nil && h.known() && h.refusal == nil && h.Clock.Since(h.at) < heldPeriod && own.Proven == h.own.Proven &&
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
	list, err := h.Cloud.ListKnownLoadBalancers(ctx, cloudapi.ListOptions{Tags: map[string]string{ownership.ClusterUID: h.ClusterUID}})
	if err != nil {
		return nil, fmt.Errorf("read the names of the cluster's load balancers: %w", err)
	}
	return renamed(list.Items, h.ClusterID), nil
}

// note remembers the result of a check, and reports it if it is another than the last one.
func (h *Holder) note(ctx context.Context, refusal *RefusedError) {
	h.mu.Lock()
	before := h.refusal
	h.settled, h.refusal, h.at = h.began, refusal, h.Clock.Now()
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

var withheld = prometheus.NewDesc("quaymaster_cloud_writes_withheld",
	"1 for the reason why this cluster may not write to the cloud, 0 for the other possible reasons.", []string{"reason"}, nil)

var _ prometheus.Collector = (*Holder)(nil)

// Describe implements prometheus.Collector.
func (h *Holder) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- withheld }

// Collect implements prometheus.Collector. It reports nothing before it is known whether the cluster may write, as in
// replicas that are not the leader.
func (h *Holder) Collect(metrics chan<- prometheus.Metric) {
	known, err := h.state()
	if !known {
		return
	}
	for _, reason := range []string{ReasonHeldByAnother, ReasonClusterID, ReasonOtherCloud} {
		value := 0.0
		if refused, ok := errors.AsType[*RefusedError](err); ok && refused.Reason == reason {
			value = 1
		}
		metrics <- prometheus.MustNewConstMetric(withheld, prometheus.GaugeValue, value, reason)
	}
}
