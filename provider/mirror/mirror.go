// Package mirror keeps a copy of this cluster's objects in the cloud, which controllers read in place of the cloud. It
// lists each kind of objects once and then follows the cloud's changes with one request for all kinds.
//
// That an object is not in the mirror is no proof that the cloud does not have it: ask the cloud before acting on it.
package mirror

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/cloudapi/lossless"
	"quaymaster.dev/provider/ownership"
)

const (
	// hold is how long the cloud may hold a request for changes.
	hold = 55 * time.Second
	// pollPeriod is how often lists are read if the cloud does not report changes.
	pollPeriod = 10 * time.Second
	// verifyPeriod is how often lists are read although the cloud reports changes, in case it forgets one.
	verifyPeriod = 30 * time.Minute
	// feedSilence is how long changes may not be readable before lists are read although they are not due: the cloud may
	// answer everything else.
	feedSilence = time.Minute
	// pageSize is the number of instances of a page, the most that the cloud allows.
	pageSize = 500
	// gap is the shortest time between requests for changes, so that many changes in a row cause few requests.
	gap = time.Second
	// maxPages is how many pages of changes are read in a row without that gap: a cloud or a proxy that always has another
	// one must not cost requests without end.
	maxPages = 100
	// maxSilence is longer than the cloud holds a request for changes: if it does not answer for longer, what it has
	// reported may be out of date.
	maxSilence = 2 * time.Minute
	// retryBase and retryMax bound the delay after a failed read.
	retryBase, retryMax = 500 * time.Millisecond, 30 * time.Second
)

// Options holds the dependencies of a Mirror.
type Options struct {
	// Cloud is the client of the cloud's API.
	Cloud *cloudapi.Client
	// Cluster identifies the load balancers of this cluster.
	Cluster *ownership.Cluster
	// Clock defaults to the real clock.
	Clock clock.Clock
}

// Mirror is a copy of the cloud's objects that concern this cluster.
type Mirror struct {
	// LoadBalancers are those with the cluster's tag, Undecodable ones included. Find returns those of a Service by its UID.
	LoadBalancers *Store[cloudv1.LoadBalancer]
	// Instances are all instances, with the tombstones of deleted ones. Find returns those with a hostname.
	Instances *Store[cloudv1.Instance]
	// NodeGroups and Routes report whether any of these has changed. The mirror does not have them.
	NodeGroups, Routes *Watch

	cloud   *cloudapi.Client
	clock   clock.Clock
	stores  []store
	watches []*Watch

	// edges reports whether an edge has changed, or has news about members.
	edges *Watch
	// progress is used by Run only.
	progress
	// wake ends the pause of Run.
	wake chan struct{}

	mu      sync.Mutex
	contact time.Time
	// losses counts how often the cloud may have lost what the mirror has. begin is what it reported about itself at the last
	// loss, until that is used.
	losses int
	begin  *cloudv1.Meta
	// follows is true if the cloud reports changes.
	follows bool
	// err is the error of the last read, or nil.
	err error
	// synced is true when all kinds have been read once.
	synced atomic.Bool
}

// state is what Run does next.
//
//	state    event                                                        next state
//	list     the lists were read, and the cloud reports changes           suspect
//	         the lists were read, and the cloud does not report changes   list, after pollPeriod
//	         an error                                                     list, after a pause that grows
//	suspect  all changes were read                                        follow
//	         an error                                                     suspect, after a pause that grows
//	         changes that are not known any more                          list, after a pause that grows
//	         nothing could be read for feedSilence                        list
//	follow   changes                                                      follow
//	         an error                                                     suspect
//	         changes that are not known any more                          list
//	any      a change that cannot be read, Lost, verifyPeriod is over     list
type state int

const (
	// list: all objects are read.
	list state = iota
	// suspect: changes are read, but may not be readable: pauses after errors go on growing.
	suspect
	// follow: changes are read.
	follow
)

// progress is how far Run has got.
type progress struct {
	state state
	delay wait.Backoff
	// since is the revision up to which changes are known, verify the time at which the lists are due again.
	since  string
	verify time.Time
	// heard is when lists or changes were last read.
	heard time.Time
	// survived is the number of losses before the lists were read.
	survived int
	// pages is the number of pages of changes that have been read in a row.
	pages int
	// hasEdges is true if the cloud may have edges.
	hasEdges bool
	look     look
}

// store is a Store whatever the type of its objects.
type store interface {
	name() string
	read(ctx context.Context) error
	change(ctx context.Context, c cloudv1.Change) error
	doubt()
}

// New creates a Mirror; Run fills it.
func New(o Options) *Mirror {
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	m := &Mirror{
		cloud: o.Cloud, clock: o.Clock, wake: make(chan struct{}, 1),
		progress: progress{delay: backoff()},
	}
	var clusterUID atomic.Value
	clusterUID.Store("")
	m.LoadBalancers = newStore(&Store[cloudv1.LoadBalancer]{
		kind: cloudv1.KindLoadBalancer, meta: (*cloudv1.LoadBalancer).Metadata, decode: lossless.Partial,
		list: func(ctx context.Context, since string) (*cloudv1.List[cloudv1.LoadBalancer], error) {
			tags, err := o.Cluster.Tags(ctx)
			if err != nil {
				return nil, err
			}
			clusterUID.Store(tags[ownership.ClusterUID])
			return o.Cloud.ListKnownLoadBalancers(ctx, cloudapi.ListOptions{Tags: tags, IfNoneMatch: since})
		},
		holds:  func(lb *cloudv1.LoadBalancer) bool { return lb.Tags[ownership.ClusterUID] == clusterUID.Load() },
		index:  func(lb *cloudv1.LoadBalancer) string { return lb.Tags[ownership.ServiceUID] },
		within: o.Cloud.Within,
	})
	m.Instances = newStore(&Store[cloudv1.Instance]{
		kind: cloudv1.KindInstance, meta: (*cloudv1.Instance).Metadata,
		decode: func(data []byte) (*cloudv1.Instance, error) {
			i := &cloudv1.Instance{}
			return i, json.Unmarshal(data, i)
		},
		list: func(ctx context.Context, since string) (*cloudv1.List[cloudv1.Instance], error) {
			return o.Cloud.ListInstances(ctx, cloudapi.ListOptions{
				IncludeDeleted: true, IfNoneMatch: since, PageSize: pageSize,
			})
		},
		holds:  func(*cloudv1.Instance) bool { return true },
		index:  func(i *cloudv1.Instance) string { return i.Hostname },
		within: o.Cloud.Within,
	})
	// The controllers of Nodes need not wait for the load balancers, which are many more pages.
	m.stores = []store{m.Instances, m.LoadBalancers}
	m.NodeGroups = &Watch{mirror: m, kind: cloudv1.KindNodeGroup}
	m.Routes = &Watch{mirror: m, kind: cloudv1.KindRoute}
	m.edges = &Watch{mirror: m, kind: cloudv1.KindEdge}
	m.watches = []*Watch{m.NodeGroups, m.Routes, m.edges}
	return m
}

// Lost makes the mirror read everything again, because the cloud may have lost what the mirror has: at the start, and when
// it was restored from a backup. Until then, its stores are not synced. meta is what the cloud reports about itself now.
func (m *Mirror) Lost(meta *cloudv1.Meta) {
	m.mu.Lock()
	m.losses++
	// The cloud has answered since the last error, which may be that it was a different one.
	m.begin, m.err = meta, nil
	m.mu.Unlock()
	for _, s := range m.stores {
		s.doubt()
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Synced reports whether all kinds have been read once.
func (m *Mirror) Synced() bool { return m.synced.Load() }

// Tried reports whether all kinds have been read once, or could not be read. In the latter case, Err returns why.
func (m *Mirror) Tried() bool { return m.Synced() || m.Err() != nil }

// Err returns the error of the last read, or nil.
func (m *Mirror) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Current reports whether the cloud answers, so that what the mirror has is at most maxSilence old.
func (m *Mirror) Current() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current()
}

// current is Current for callers that hold the lock.
func (m *Mirror) current() bool { return m.err == nil && m.clock.Since(m.contact) <= maxSilence }

// Run follows the cloud until ctx ends.
func (m *Mirror) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if pause := m.round(ctx); pause > 0 {
			timer := m.clock.NewTimer(pause)
			select {
			case <-ctx.Done():
			case <-m.wake:
			case <-timer.C():
			}
			timer.Stop()
		}
	}
}

// round does one step, and returns how long to wait before the next one.
func (m *Mirror) round(ctx context.Context) time.Duration {
	pause, err := m.step(ctx)
	m.note(err)
	if err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).WithName("mirror").Error(err, "Could not read the cloud, will retry")
		}
		if m.state == follow {
			m.state = suspect
		}
		return m.delay.Step()
	}
	// That lists can be read does not mean that changes can: otherwise they would be read in turn without a pause.
	if m.state != suspect {
		m.delay = backoff()
	}
	m.synced.Store(true)
	return pause
}

// answered remembers that the cloud has answered one of several requests.
func (m *Mirror) answered() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.contact = m.clock.Now()
}

// note remembers the result of a read.
func (m *Mirror) note(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err = err; err == nil {
		m.contact = m.clock.Now()
	}
}

func backoff() wait.Backoff {
	return wait.Backoff{Duration: retryBase, Factor: 2, Jitter: 0.2, Steps: 10, Cap: retryMax}
}

// step does what the state asks for, and returns how long to wait before the next step.
func (m *Mirror) step(ctx context.Context) (time.Duration, error) {
	if m.lost() != m.survived || !m.clock.Now().Before(m.verify) {
		m.state = list
	}
	if m.state == list {
		return m.readLists(ctx)
	}
	return m.readChanges(ctx)
}

func (m *Mirror) lost() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.losses
}

// readMeta returns what the cloud reports about itself, and notes that no loss before counts any more.
func (m *Mirror) readMeta(ctx context.Context) (*cloudv1.Meta, error) {
	err := m.cloud.Identify(ctx)
	m.mu.Lock()
	meta := m.begin
	m.begin, m.survived = nil, m.losses
	m.mu.Unlock()
	select {
	case <-m.wake: // the losses until now need no more haste
	default:
	}
	if err == nil && meta == nil {
		meta, err = m.cloud.Meta(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of the cloud: %w", err)
	}
	return meta, nil
}

// readLists reads all objects.
func (m *Mirror) readLists(ctx context.Context) (time.Duration, error) {
	meta, err := m.readMeta(ctx)
	if err != nil {
		return 0, err
	}
	// Changes before the revision of meta are not reported any more.
	follows := slices.Contains(meta.Capabilities, cloudv1.CapabilityChanges)
	m.resetWatches(follows)
	m.hasEdges = slices.Contains(meta.Capabilities, cloudv1.CapabilityEdges)
	ctx = m.cloud.WithinState(ctx)
	for _, s := range m.stores {
		if err := s.read(ctx); err != nil {
			return 0, err
		}
		m.answered()
	}
	m.since, m.heard = meta.Revision, m.clock.Now()
	if !follows {
		return pollPeriod, nil
	}
	m.state, m.verify = suspect, m.clock.Now().Add(verifyPeriod)
	m.look.edges, m.look.owed = m.edges.Mark(), false
	return 0, nil
}

// readChanges reads the changes after those that are known.
func (m *Mirror) readChanges(ctx context.Context) (time.Duration, error) {
	ctx = m.cloud.WithinState(ctx)
	longest := min(hold, m.verify.Sub(m.clock.Now()))
	if m.Err() != nil {
		longest = min(longest, time.Second) // whether the cloud answers again must be known soon
	}
	limit, err := m.observe(ctx, longest)
	if err != nil {
		return 0, err
	}
	begin := m.clock.Now()
	// The unit of the request is a second: with less, the cloud would answer at once, again and again.
	changes, err := m.cloud.Changes(cloudapi.WithClass(ctx, cloudapi.Safety), m.since, m.names(), max(time.Second, limit))
	if cloudapi.HasCode(err, cloudv1.CodePageTokenExpired) {
		was := m.state
		if m.state = list; was == follow {
			return 0, nil
		}
	}
	if err != nil {
		if m.clock.Since(m.heard) >= feedSilence {
			m.state = list
		}
		return 0, fmt.Errorf("read changes: %w", err)
	}
	if err := m.apply(ctx, changes.Items); err != nil {
		m.state = list // lists do not depend on a change that cannot be read
		return 0, err
	}
	if changes.More && changes.Revision == m.since {
		return 0, fmt.Errorf("read changes: the cloud has more changes, but repeats the revision %s", m.since)
	}
	m.since = changes.Revision
	if m.pages++; changes.More && m.pages < maxPages {
		return 0, nil
	}
	if !changes.More {
		m.pages, m.state, m.heard = 0, follow, m.clock.Now()
	}
	return gap - m.clock.Since(begin), nil
}

// names returns the kinds whose changes the mirror follows.
func (m *Mirror) names() []string {
	var names []string
	for _, s := range m.stores {
		names = append(names, s.name())
	}
	for _, w := range m.watches {
		// A cloud that has never heard of edges would reject the request.
		if w != m.edges || m.hasEdges {
			names = append(names, w.kind)
		}
	}
	return names
}

func (m *Mirror) apply(ctx context.Context, changes []cloudv1.Change) error {
	for _, c := range changes {
		m.noteChange(c.Kind)
		for _, s := range m.stores {
			if s.name() != c.Kind {
				continue
			}
			if err := s.change(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// Watch reports whether objects of a kind have changed that the mirror does not have. It saves the periodic reads of
// those who act only on what they have read from the cloud itself.
type Watch struct {
	mirror *Mirror
	kind   string
	// seen is guarded by the lock of the mirror.
	seen Mark
}

// Mark stands for what the cloud had reported at a time.
type Mark uint64

// Mark returns the mark for Quiet. It must be called before the objects are read from the cloud.
func (w *Watch) Mark() Mark {
	w.mirror.mu.Lock()
	defer w.mirror.mu.Unlock()
	return w.seen
}

// Quiet reports whether objects that were read after the mark are unchanged: the cloud reports changes, has reported
// none, and answers. Whenever the mirror reads its own lists again, in case the cloud has not reported a change, Quiet
// returns false for earlier marks.
func (w *Watch) Quiet(since Mark) bool {
	w.mirror.mu.Lock()
	defer w.mirror.mu.Unlock()
	return w.mirror.follows && w.mirror.current() && w.seen == since
}

// resetWatches makes all earlier marks invalid, because changes have not been reported.
func (m *Mirror) resetWatches(follows bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.follows = follows
	for _, w := range m.watches {
		w.seen++
	}
}

// noteChange remembers a change of a kind.
func (m *Mirror) noteChange(kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.watches {
		if w.kind == kind {
			w.seen++
		}
	}
}
