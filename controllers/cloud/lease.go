package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/kube/leadership"
)

// stopLimit is how long the controllers and their last writes may take to end before the lease is left to expire. A pod
// has 30 s to end.
const stopLimit = 10 * time.Second

// lock is the lease of the leader election.
type lock struct {
	resourcelock.Interface

	// tenure learns from renewals, and knows the least number of transitions to write.
	tenure *leadership.Tenure
	// ending is true once there are no writes but those of the lease.
	ending atomic.Bool
	// releasable is true once nothing can be written any more.
	releasable atomic.Bool
	// renewed is the time of the last renewal that this process has written.
	renewed metav1.Time
	// stop ends the election, and reason is why, if it is not that the lease could not be renewed. It is set by the election.
	stop   func()
	reason error
}

// errLost is why a leader ends that could not renew the lease.
var errLost = errors.New("the lease was lost: it could not be renewed in time")

// errRestored is why a leader ends although it holds the lease. Informers do not notice that etcd was restored: they wait
// for revisions after the last one that they have seen, and miss what happens until etcd has counted that far again.
var errRestored = errors.New("the lease is older than its last renewal: etcd was restored from a backup, and everything " +
	"has to be read again")

// Get reads the lease.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.RenewTime.Time.Before(l.renewed.Truncate(time.Microsecond)) {
		l.reason = errRestored
		l.stop()
		return nil, nil, errRestored
	}
	return record, raw, err
}

// Update writes the lease. The leader election releases it by writing it without a holder, also when it could not be
// renewed, while the controllers are still running: then it has to expire.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && !l.releasable.Load() {
		return errors.New("it expires instead, because writes may still be under way")
	}
	err := l.write(ctx, record, l.Interface.Update)
	if err == nil && record.HolderIdentity == "" {
		klog.FromContext(ctx).Info("Released the lease", "lock", l.Describe())
	}
	return err
}

// Create writes the lease if there is none, as after it was deleted.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

func (l *lock) write(
	ctx context.Context, record resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	record.LeaderTransitions = max(record.LeaderTransitions, int(l.tenure.Floor()))
	err := l.tenure.Renew(int64(record.LeaderTransitions), record.HolderIdentity == "", func() error {
		return write(ctx, record)
	})
	if err == nil {
		l.renewed = record.RenewTime
	}
	return err
}

// RecordEvent records an Event unless it could no longer be written.
func (l *lock) RecordEvent(event string) {
	if !l.ending.Load() {
		l.Interface.RecordEvent(event)
	}
}

// lead runs the controllers while this process is the leader, until the context ends or the lease is lost. At the end of
// the context it releases the lease, so that another replica leads at once, but only after the controllers have stopped
// and every write has its answer.
func (m *Manager) lead(
	ctx context.Context, completed *ccmconfig.CompletedConfig, f *front, run func(context.Context) error,
) error {
	settings := completed.ComponentConfig.Generic.LeaderElection
	if !settings.LeaderElect {
		return run(ctx)
	}
	process := m.Pod
	if process == "" {
		hostname, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("identify this process in the lease: %w", err)
		}
		process = hostname
	}
	lease, err := resourcelock.NewFromKubeconfig(settings.ResourceLock, settings.ResourceNamespace, settings.ResourceName,
		// Two processes on the same machine must differ.
		resourcelock.ResourceLockConfig{
			Identity: process + "_" + string(uuid.NewUUID()), EventRecorder: completed.EventRecorder,
		},
		completed.Kubeconfig, settings.RenewDeadline.Duration)
	if err != nil {
		return fmt.Errorf("create the lock of the leader election: %w", err)
	}
	l := &lock{Interface: lease, tenure: m.Tenure()}
	leading := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, Name: settings.ResourceName, WatchDog: f.election, ReleaseOnCancel: true,
		LeaseDuration: settings.LeaseDuration.Duration, RenewDeadline: settings.RenewDeadline.Duration,
		RetryPeriod: settings.RetryPeriod.Duration,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leading) }, OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("set up the leader election: %w", err)
	}
	f.election.SetLeaderElection(elector)
	// The election goes on until the controllers have stopped.
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(electing)
	}()
	defer func() {
		stop()
		<-ended
	}()
	select {
	case <-leading:
	case <-ctx.Done():
		m.Tenure().Close()
		l.ending.Store(true)
		l.releasable.Store(true)
		return nil
	}
	return m.reign(ctx, l, ended, run)
}

// reign runs the controllers until the context ends or the lease is lost.
func (m *Manager) reign(
	ctx context.Context, l *lock, lost <-chan struct{}, run func(context.Context) error,
) error {
	controllers, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- run(controllers) }()
	select {
	case err := <-stopped:
		m.Tenure().End(errors.New("the controllers have failed"))
		return err
	case <-lost:
		err := cmp.Or(l.reason, errLost)
		m.Tenure().End(err)
		stop()
		select {
		case failed := <-stopped:
			err = errors.Join(err, failed)
		case <-time.After(stopLimit):
		}
		return err
	case <-ctx.Done():
	}
	m.Tenure().Close()
	l.ending.Store(true)
	stop()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if err := m.finish(limit, stopped); err != nil {
		klog.FromContext(ctx).Info("The lease is not released and has to expire", "reason", err.Error())
		return nil
	}
	l.releasable.Store(true)
	return nil
}

// finish waits until every write has its answer and the controllers have stopped.
func (m *Manager) finish(ctx context.Context, stopped <-chan error) error {
	if err := m.Tenure().Drain(ctx); err != nil {
		return err
	}
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		return errors.New("the controllers have not stopped in time")
	}
}
