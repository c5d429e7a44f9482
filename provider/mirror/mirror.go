// Package mirror keeps a copy of this cluster's objects in the cloud, which controllers read in place of the cloud. It
// lists each kind of objects once and then follows the cloud's changes with one request for all kinds.
//
// That an object is not in the mirror is no proof that the cloud does not have it: ask the cloud before acting on it.
package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
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
	// LoadBalancers are those with the cluster's tag. Find returns those of a Service by its UID.
	LoadBalancers *Store[cloudv1.LoadBalancer]
	// Instances are all instances, with the tombstones of deleted ones. Find returns those with a hostname.
	Instances *Store[cloudv1.Instance]
	// NodeGroups and Routes report whether any of these has changed. The mirror does not have them.
	NodeGroups, Routes *Watch

	cloud   *cloudapi.Client
	clock   clock.Clock
	kinds   []kind
	watches []*Watch

	// edges reports whether an edge has changed, or has news about members.
	edges *Watch
	// hasEdges is true if the cloud may have edges. It is used by Run only.
	hasEdges bool
	// look is used by Run only.
	look look
	// pages is the number of pages of changes that have been read in a row. It is used by Run only.
	pages int
	// unread is true if not all changes have been read since the lists. It is used by Run only.
	unread bool
	// heard is when lists or changes were last read. It is used by Run only.
	heard time.Time

	mu      sync.Mutex
	contact time.Time
	// follows is true if the cloud reports changes.
	follows bool
	// err is the error of the last read, or nil.
	err error
	// synced is closed when all kinds have been read once.
	synced chan struct{}
}

// kind is a Store whatever the type of its objects.
type kind struct {
	name   string
	read   func(context.Context) error
	change func(cloudv1.Change) error
	doubt  func(since string) bool
}

// New creates a Mirror; Run fills it.
func New(o Options) *Mirror {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	m := &Mirror{cloud: o.Cloud, clock: o.Clock, synced: make(chan struct{})}
	var clusterUID string
	m.LoadBalancers = &Store[cloudv1.LoadBalancer]{
		kind: cloudv1.KindLoadBalancer, meta: (*cloudv1.LoadBalancer).Metadata, decode: cloudapi.DecodeLoadBalancer,
		list: func(ctx context.Context, since string) (*cloudv1.List[cloudv1.LoadBalancer], error) {
			tags, err := o.Cluster.Tags(ctx)
			if err != nil {
				return nil, err
			}
			clusterUID = tags[ownership.ClusterUID]
			return o.Cloud.ListLoadBalancers(ctx, cloudapi.ListOptions{Tags: tags, IfNoneMatch: since})
		},
		holds: func(lb *cloudv1.LoadBalancer) bool { return lb.Tags[ownership.ClusterUID] == clusterUID },
		index: func(lb *cloudv1.LoadBalancer) string { return lb.Tags[ownership.ServiceUID] },
		items: map[string]*cloudv1.LoadBalancer{}, byKey: map[string]map[string]bool{}, doubted: map[string]bool{},
	}
	m.Instances = &Store[cloudv1.Instance]{
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
		index: func(i *cloudv1.Instance) string { return i.Hostname },
		items: map[string]*cloudv1.Instance{}, byKey: map[string]map[string]bool{}, doubted: map[string]bool{},
	}
	// The controllers of Nodes need not wait for the load balancers, which are many more pages.
	m.kinds = []kind{kindOf(m.Instances), kindOf(m.LoadBalancers)}
	m.NodeGroups = &Watch{mirror: m, kind: cloudv1.KindNodeGroup}
	m.Routes = &Watch{mirror: m, kind: cloudv1.KindRoute}
	m.edges = &Watch{mirror: m, kind: cloudv1.KindEdge}
	m.watches = []*Watch{m.NodeGroups, m.Routes, m.edges}
	return m
}

func kindOf[T any](s *Store[T]) kind {
	return kind{name: s.kind, read: s.read, change: s.change, doubt: s.doubt}
}

// Synced reports whether all kinds have been read once.
func (m *Mirror) Synced() bool {
	select {
	case <-m.synced:
		return true
	default:
		return false
	}
}

// Tried reports whether all kinds have been read once, or could not be read. In the latter case, Err returns why.
func (m *Mirror) Tried() bool { return m.Synced() || m.Err() != nil }

// Err returns the error of the last read, or nil.
func (m *Mirror) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// LastContact returns when the cloud last answered, or the zero time. While the cloud does not answer, the mirror keeps
// what it has.
func (m *Mirror) LastContact() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contact
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
	var since string
	var verify time.Time
	delay := backoff()
	for ctx.Err() == nil {
		if pause := m.round(ctx, &since, &verify, &delay); pause > 0 {
			timer := m.clock.NewTimer(pause)
			select {
			case <-ctx.Done():
			case <-timer.C():
			}
			timer.Stop()
		}
	}
}

// round does one step, and returns how long to wait before the next one.
func (m *Mirror) round(ctx context.Context, since *string, verify *time.Time, delay *wait.Backoff) time.Duration {
	pause, err := m.step(ctx, since, verify)
	m.note(err)
	if err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).WithName("mirror").Error(err, "Could not read the cloud, will retry")
		}
		return delay.Step()
	}
	// That lists can be read does not mean that changes can: otherwise they would be read in turn without a pause.
	if !m.unread {
		*delay = backoff()
	}
	if !m.Synced() {
		close(m.synced)
	}
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

// step reads the lists if that is due or if the cloud does not report changes, or else the changes after since. It
// returns how long to wait before the next step.
func (m *Mirror) step(ctx context.Context, since *string, verify *time.Time) (time.Duration, error) {
	if *since != "" && m.Err() != nil && m.doubt(*since) {
		// The cloud may have been restored to a state that is older than writes whose responses the mirror has.
		*verify = time.Time{}
	}
	if !m.clock.Now().Before(*verify) {
		meta, err := m.cloud.Meta(ctx)
		if err != nil {
			return 0, fmt.Errorf("read the state of the cloud: %w", err)
		}
		// Changes before the revision of meta are not reported any more.
		follows := slices.Contains(meta.Capabilities, cloudv1.CapabilityChanges)
		m.resetWatches(follows)
		m.hasEdges = slices.Contains(meta.Capabilities, cloudv1.CapabilityEdges)
		if lost(*since, meta.Revision) {
			// After a long outage, lists are due before the cloud could say that it does not know the revision.
			*since = ""
		}
		m.doubt(*since)
		for _, k := range m.kinds {
			if err := k.read(ctx); err != nil {
				return 0, err
			}
			m.answered()
		}
		*since, m.unread, m.heard = meta.Revision, follows, m.clock.Now()
		if !follows {
			return pollPeriod, nil
		}
		*verify = m.clock.Now().Add(verifyPeriod)
		m.look.edges, m.look.owed = m.edges.Mark(), false
		return 0, nil
	}
	longest := min(hold, verify.Sub(m.clock.Now()))
	if m.Err() != nil {
		longest = min(longest, time.Second) // whether the cloud answers again must be known soon
	}
	limit, err := m.observe(ctx, longest)
	if err != nil {
		return 0, err
	}
	begin := m.clock.Now()
	// The unit of the request is a second: with less, the cloud would answer at once, again and again.
	changes, err := m.cloud.Changes(cloudapi.WithClass(ctx, cloudapi.Safety), *since, m.names(), max(time.Second, limit))
	if cloudapi.HasCode(err, cloudv1.CodePageTokenExpired) {
		*verify = time.Time{}
		m.doubt("")
		if !m.unread {
			return 0, nil
		}
	}
	if err != nil {
		if m.clock.Since(m.heard) >= feedSilence {
			*verify = time.Time{}
		}
		return 0, fmt.Errorf("read changes: %w", err)
	}
	if err := m.apply(changes.Items); err != nil {
		*verify = time.Time{} // lists do not depend on a change that cannot be read
		return 0, err
	}
	if changes.More && changes.Revision == *since {
		return 0, fmt.Errorf("read changes: the cloud has more changes, but repeats the revision %s", *since)
	}
	*since = changes.Revision
	if m.pages++; changes.More && m.pages < maxPages {
		return 0, nil
	}
	if !changes.More {
		m.pages, m.unread, m.heard = 0, false, m.clock.Now()
	}
	return gap - m.clock.Since(begin), nil
}

// doubt lets what is read next replace what is newer than a revision, or everything if it is empty: the cloud may have
// been restored from a backup, and count the same numbers again. It returns false if there is nothing newer.
func (m *Mirror) doubt(since string) bool {
	found := false
	for _, k := range m.kinds {
		found = k.doubt(since) || found
	}
	return found
}

// names returns the kinds whose changes the mirror follows.
func (m *Mirror) names() []string {
	var names []string
	for _, k := range m.kinds {
		names = append(names, k.name)
	}
	for _, w := range m.watches {
		// A cloud that has never heard of edges would reject the request.
		if w != m.edges || m.hasEdges {
			names = append(names, w.kind)
		}
	}
	return names
}

func (m *Mirror) apply(changes []cloudv1.Change) error {
	for _, c := range changes {
		m.noteChange(c.Kind)
		for _, k := range m.kinds {
			if k.name != c.Kind {
				continue
			}
			if err := k.change(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func notModified(err error) bool { return errors.Is(err, cloudapi.ErrNotModified) }
