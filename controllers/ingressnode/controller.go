// Package ingressnode reconciles the cloud's node groups with the Nodes that carry the traffic of load balancers. It is
// the only writer of their members: pools of load balancers refer to a group, so that a change of a Node reaches all of
// them with one write and without any change to a Service.
package ingressnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/controllers/worker"
)

// Name is the controller's name in the --controllers flag: it must not change.
const Name = "ingress-node-controller"

const (
	// settle batches changes that happen together, such as a rollout of labels, into one write per group.
	settle = 500 * time.Millisecond
	// driftPeriod is how often the groups in the cloud are checked for changes by others.
	driftPeriod = 30 * time.Second
	// A failed sync is retried after retryBase; the delay doubles with every failure, up to retryMax.
	retryBase = 500 * time.Millisecond
	retryMax  = 30 * time.Second
	// callTimeout bounds one sync: a cloud that does not answer must not block later changes forever.
	callTimeout = 30 * time.Second
)

// Group is a node group in the cloud.
type Group struct {
	ID, Revision string
	// Name is the name of the group in annotations, such as default.
	Name    string
	Members []Member
	// Err is the reason why the group must not be changed, such as a second group of the same name.
	Err error
}

// Groups are this cluster's node groups in the cloud. Calls for a namespace, of which there may be many, leave room for
// those for others; "" stands for all.
type Groups interface {
	// List returns every group and the revision of the collection. If that is still since, changed is false and the
	// rest is empty. Without since, List reads the groups from the cloud.
	List(ctx context.Context, since string) (groups []Group, revision string, changed bool, err error)
	// Create creates a group without members. If the group exists by now, Create returns it unchanged.
	Create(ctx context.Context, name, namespace string) (Group, error)
	// Change writes and removes members of a group, provided that the group still has its revision.
	Change(ctx context.Context, group Group, upsert []Member, remove []string, namespace string) (Group, error)
	// Delete deletes a group, provided that it still has its revision. The error wraps ErrInUse if pools refer to it.
	Delete(ctx context.Context, group Group) error
}

// Options are the dependencies of a Controller.
type Options struct {
	Groups   Groups
	Machines Machines
	// Nodes must come from a factory that is started after New.
	Nodes coreinformers.NodeInformer
	// Services, from the same factory, show which groups are in use; nil means that no group is ever deleted.
	Services coreinformers.ServiceInformer
	// Synced are waited for before the first sync, in addition to the informers.
	Synced []cache.InformerSynced
	// Recorder records Events about Nodes.
	Recorder record.EventRecorder
	// InstanceID parses the provider ID of a Node.
	InstanceID func(providerID string) (string, error)
	// FallbackAll makes every eligible Node serve a group for which no Node is marked.
	FallbackAll bool
	// DrainCordoned makes cordoned Nodes leave their groups, after their connections have drained.
	DrainCordoned bool
	// MaxRemovedPercent is the share of a group's members that may leave per minute without a decision about their Node.
	MaxRemovedPercent int
	// Resumed reports whether an operator lets all of them leave for now; nil means never.
	Resumed func() bool
	// MaxGroups is the number of groups that the cluster may have.
	MaxGroups int
	// Registerer registers the metric; nil means that there is none.
	Registerer prometheus.Registerer
	// RetryAfter returns when to repeat what has failed with an error; 0 or nil means that this is not known.
	RetryAfter func(error) time.Duration
	// Clock times everything; nil means the real clock.
	Clock clock.WithTicker
}

// allGroups is the queue's only item: one worker syncs every group, so that a group has one writer.
const allGroups = "all"

// Controller maintains the members of node groups. Fields that only its worker uses need no lock.
type Controller struct {
	o         Options
	queue     *worker.Queue[string]
	marks     *marks
	drains    *drains
	machines  *machines
	deletions *deletions
	turns     turns
	// driftDue makes the next sync check for changes by others.
	driftDue atomic.Bool

	// loaded is true if cloud holds the groups of the cloud at revision. Without one, the controller has written since: a
	// cloud that lost the write, restored to the state before, has the old revision again.
	loaded   bool
	revision string
	cloud    map[string]Group
	// brakes and unusedSince are by name of the group, like cloud.
	brakes      map[string]*brake
	unusedSince map[string]time.Time
	// held has the number of members that the brake keeps in each group, heldMembers their sum.
	held        map[string]int
	heldMembers prometheus.Gauge
	// ids has the last known ID of each group, by name. onMoved are called when it has changed.
	ids     map[string]string
	onMoved []func()

	mu sync.Mutex
	// requests are the groups that were requested through ID, by name.
	requests map[string]*request
}

// request is a group that load balancers refer to, guarded by Controller.mu.
type request struct {
	// asked is when the group was last requested.
	asked time.Time
	// done is closed when the first attempt to sync the group has ended.
	done    chan struct{}
	settled bool
	// id is the ID of the group in the cloud once a sync has succeeded; until then err is the error of the last sync.
	id  string
	err error
}

// New creates a Controller; Run runs it.
func New(o Options) (*Controller, error) {
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	if o.Resumed == nil {
		o.Resumed = func() bool { return false }
	}
	if o.RetryAfter == nil {
		o.RetryAfter = func(error) time.Duration { return 0 }
	}
	c := &Controller{
		o:         o,
		marks:     newMarks(o.Recorder),
		drains:    &drains{cordoned: o.DrainCordoned, since: map[types.UID]time.Time{}},
		machines:  newMachines(o.Machines, o.Recorder, o.Clock),
		deletions: &deletions{seen: departures{}}, turns: newTurns(),
		brakes: map[string]*brake{}, unusedSince: map[string]time.Time{}, held: map[string]int{},
		ids: map[string]string{}, requests: map[string]*request{},
		heldMembers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quaymaster_ingress_members_held",
			Help: "Members of node groups that should leave and stay for now, because too many would leave at once.",
		}),
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(c.heldMembers); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	c.queue = worker.New(worker.Options[string]{
		Name: Name, Workers: 1, RetryBase: retryBase, RetryMax: retryMax, Timeout: callTimeout, Process: c.process,
		Clock: o.Clock,
	})
	if err := c.watch(); err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	return c, nil
}

// watch makes the changes of Nodes that matter lead to a sync. Asking for the informer of Services registers it.
func (c *Controller) watch() error {
	if c.o.Services != nil {
		c.o.Services.Informer()
	}
	changed := func(any) { c.queue.AddAfter(allGroups, settle) }
	_, err := c.o.Nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed,
		DeleteFunc: func(obj any) {
			c.deletions.note(obj, c.o.InstanceID)
			changed(obj)
		},
		UpdateFunc: func(oldObj, newObj any) {
			before, ok1 := oldObj.(*corev1.Node)
			after, ok2 := newObj.(*corev1.Node)
			if ok1 && ok2 && !reflect.DeepEqual(observe(before), observe(after)) {
				changed(after)
			}
		},
	})
	return err
}

// Metrics returns the collector that counts failures.
func (c *Controller) Metrics() prometheus.Collector { return c.queue }

// Run syncs node groups until ctx ends. It returns when no goroutine of the controller runs any more.
func (c *Controller) Run(ctx context.Context) {
	synced := append([]cache.InformerSynced{c.o.Nodes.Informer().HasSynced}, c.o.Synced...)
	if c.o.Services != nil {
		synced = append(synced, c.o.Services.Informer().HasSynced)
	}
	c.queue.Add(allGroups)
	c.queue.RunEvery(ctx, driftPeriod, c.checkDrift, synced...)
}

func (c *Controller) checkDrift() {
	c.driftDue.Store(true)
	c.queue.Add(allGroups)
}

func (c *Controller) process(ctx context.Context, _ string) worker.Result {
	next, err := c.sync(ctx, c.driftDue.Swap(false))
	switch {
	case err != nil:
		klog.FromContext(ctx).Error(err, "Could not sync node groups, will retry")
		if next > 0 {
			return worker.RetryAfter(next)
		}
		return worker.Retry()
	case next > 0:
		return worker.Again(next)
	}
	return worker.Done()
}

// ID returns the ID of a group in the cloud and makes the controller maintain the group's members from then on. It
// waits for the first attempt to sync the group and returns its error; the controller keeps retrying. The error wraps
// ErrTooManyGroups if the group is one too many.
func (c *Controller) ID(ctx context.Context, group string) (string, error) {
	r := c.request(group)
	select {
	case <-r.done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return r.id, r.err
	case <-ctx.Done():
		return "", fmt.Errorf("wait for node group %s: %w", group, ctx.Err())
	}
}

// OnMoved calls f whenever a group has got another ID in the cloud, as after its tags were removed there: load balancers
// refer to the former one, which has no writer any more. It must be called before Run, and f must not block.
func (c *Controller) OnMoved(f func()) { c.onMoved = append(c.onMoved, f) }

// request returns the request of a group. If there is none, or the last one failed, it begins a new one.
func (c *Controller) request(group string) *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.requests[group]
	if r == nil || r.err != nil {
		r = &request{done: make(chan struct{})}
		c.requests[group] = r
		c.queue.Add(allGroups)
	}
	r.asked = c.o.Clock.Now()
	return r
}

// settle passes the result of a group's sync to the callers that wait for it. After a successful sync, a group keeps
// its ID through later failures. A group that is one too many is not requested any more.
func (c *Controller) settle(name string, r *request, id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		r.id, r.err = id, nil
	case r.id == "":
		r.err = err
	}
	if errors.Is(err, ErrTooManyGroups) && c.requests[name] == r {
		delete(c.requests, name)
	}
	if !r.settled {
		r.settled = true
		close(r.done)
	}
}

// requested returns a copy of the requests for a sync to settle. Those that have failed and were not repeated for
// unusedTime are dropped: their groups do not exist.
func (c *Controller) requested() map[string]*request {
	now := c.o.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.requests, func(_ string, r *request) bool { return r.err != nil && now.Sub(r.asked) >= unusedTime })
	maps.DeleteFunc(c.ids, func(name, _ string) bool { return c.requests[name] == nil && c.cloud[name].ID == "" })
	return maps.Clone(c.requests)
}

// Once syncs the groups of the cloud and the named ones, once. The Controller cannot run afterwards. As after a start of
// Run, the brake does not let members leave yet.
func (c *Controller) Once(ctx context.Context, groups ...string) error {
	defer c.queue.ShutDown()
	for _, group := range slices.Sorted(slices.Values(groups)) {
		c.request(group)
	}
	_, err := c.syncAll(ctx, true)
	return err
}

// syncAll is sync until nothing is left to do at once.
func (c *Controller) syncAll(ctx context.Context, checkDrift bool) (time.Duration, error) {
	next, err := c.sync(ctx, checkDrift)
	errs := []error{err}
	for next == immediately {
		next, err = c.sync(ctx, false)
		errs = append(errs, err)
	}
	return next, errors.Join(errs...)
}
