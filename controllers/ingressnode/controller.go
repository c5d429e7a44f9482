package ingressnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
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

// Groups are this cluster's node groups in the cloud.
type Groups interface {
	// List returns every group and the revision of the collection. If that is still since, changed is false and the
	// rest is empty.
	List(ctx context.Context, since string) (groups []Group, revision string, changed bool, err error)
	// Create creates a group without members. If the group exists by now, Create returns it unchanged.
	Create(ctx context.Context, name string) (Group, error)
	// Change writes and removes members of a group, provided that the group still has its revision.
	Change(ctx context.Context, group Group, upsert []Member, remove []string) (Group, error)
}

// Options are the dependencies of a Controller.
type Options struct {
	Groups Groups
	// Nodes must come from a factory that is started after New.
	Nodes coreinformers.NodeInformer
	// Recorder records Events about Nodes.
	Recorder record.EventRecorder
	// InstanceID parses the provider ID of a Node.
	InstanceID func(providerID string) (string, error)
	// FallbackAll makes every eligible Node serve a group for which no Node is marked.
	FallbackAll bool
	// Clock times the checks for drift; nil means the real clock.
	Clock clock.WithTicker
}

// allGroups is the queue's only item: one worker syncs every group, so that a group has one writer.
const allGroups = "all"

// Controller maintains the members of node groups. Fields that only its worker uses need no lock.
type Controller struct {
	groups      Groups
	nodes       coreinformers.NodeInformer
	instanceID  func(string) (string, error)
	fallbackAll bool
	clock       clock.WithTicker
	queue       *worker.Queue[string]
	marks       *marks
	// driftDue makes the next sync check for changes by others.
	driftDue atomic.Bool

	// loaded is true if cloud holds the groups of the cloud at revision.
	loaded   bool
	revision string
	cloud    map[string]Group

	mu sync.Mutex
	// requests are the groups that were requested through ID, by name.
	requests map[string]*request
}

// request is a group that load balancers refer to, guarded by Controller.mu.
type request struct {
	// done is closed when the first attempt to sync the group has ended.
	done    chan struct{}
	settled bool
	// id is the ID of the group in the cloud once a sync has succeeded; until then err is the error of the last sync.
	id  string
	err error
}

// New creates a Controller; Run runs it.
func New(o Options) (*Controller, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &Controller{
		groups: o.Groups, nodes: o.Nodes, instanceID: o.InstanceID, fallbackAll: o.FallbackAll, clock: o.Clock,
		marks:    newMarks(o.Recorder),
		requests: map[string]*request{},
	}
	c.queue = worker.New(worker.Options[string]{
		Name: Name, Workers: 1, RetryBase: retryBase, RetryMax: retryMax, Timeout: callTimeout, Process: c.process,
	})
	changed := func(any) { c.queue.AddAfter(allGroups, settle) }
	_, err := o.Nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		DeleteFunc: changed,
		UpdateFunc: func(oldObj, newObj any) {
			before, ok1 := oldObj.(*corev1.Node)
			after, ok2 := newObj.(*corev1.Node)
			if ok1 && ok2 && !reflect.DeepEqual(observe(before), observe(after)) {
				changed(after)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	return c, nil
}

// Run syncs node groups until ctx ends. It returns when no goroutine of the controller runs any more.
func (c *Controller) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	c.queue.Add(allGroups)
	running.Go(func() { c.queue.Run(ctx, c.nodes.Informer().HasSynced) })
	ticker := c.clock.NewTicker(driftPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			c.driftDue.Store(true)
			c.queue.Add(allGroups)
		}
	}
}

func (c *Controller) process(ctx context.Context, _ string) worker.Result {
	if err := c.sync(ctx, c.driftDue.Swap(false)); err != nil {
		klog.FromContext(ctx).Error(err, "Could not sync node groups, will retry")
		return worker.Retry()
	}
	return worker.Done()
}

// ID returns the ID of a group in the cloud and makes the controller maintain the group's members from then on. It
// waits for the first attempt to sync the group and returns its error; the controller keeps retrying.
func (c *Controller) ID(ctx context.Context, group string) (string, error) {
	c.mu.Lock()
	r := c.requests[group]
	if r == nil || r.err != nil {
		r = &request{done: make(chan struct{})}
		c.requests[group] = r
		c.queue.Add(allGroups)
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return r.id, r.err
	case <-ctx.Done():
		return "", fmt.Errorf("wait for node group %s: %w", group, ctx.Err())
	}
}

// settle passes the result of a group's sync to the callers that wait for it. After a successful sync, a group keeps
// its ID through later failures.
func (c *Controller) settle(r *request, id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		r.id, r.err = id, nil
	case r.id == "":
		r.err = err
	}
	if !r.settled {
		r.settled = true
		close(r.done)
	}
}

// requested returns a copy of the requests for a sync to settle.
func (c *Controller) requested() map[string]*request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.requests)
}

// sync reconciles every group in the cloud and every requested one. The failure of a group does not affect the others.
func (c *Controller) sync(ctx context.Context, checkDrift bool) error {
	requests := c.requested()
	if err := c.load(ctx, checkDrift); err != nil {
		for _, r := range requests {
			c.settle(r, "", err)
		}
		return err
	}
	nodes, err := c.candidates()
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for name := range c.cloud {
		names[name] = true
	}
	for name := range requests {
		names[name] = true
	}
	var errs []error
	for name := range names {
		err := c.syncGroup(ctx, name, nodes)
		if err != nil {
			errs = append(errs, err)
		}
		if r := requests[name]; r != nil {
			c.settle(r, c.cloud[name].ID, err)
		}
	}
	return errors.Join(errs...)
}

// load lists the groups of the cloud if they are unknown or may have drifted.
func (c *Controller) load(ctx context.Context, checkDrift bool) error {
	if c.loaded && !checkDrift {
		return nil
	}
	since := ""
	if c.loaded {
		since = c.revision
	}
	groups, revision, changed, err := c.groups.List(ctx, since)
	if err != nil {
		return fmt.Errorf("list node groups: %w", err)
	}
	if changed {
		c.cloud = make(map[string]Group, len(groups))
		for _, g := range groups {
			c.cloud[g.Name] = g
		}
		c.loaded, c.revision = true, revision
	}
	return nil
}

// syncGroup reconciles a group. After a failure it is unknown whether the write took place or another writer came
// first, so the groups are listed again before the next attempt.
func (c *Controller) syncGroup(ctx context.Context, name string, nodes []candidate) error {
	group, err := c.write(ctx, name, nodes)
	if err != nil {
		c.loaded = false
		return fmt.Errorf("node group %s: %w", name, err)
	}
	c.cloud[name] = group
	return nil
}

// write creates the group if it does not exist and writes the members that differ.
func (c *Controller) write(ctx context.Context, name string, nodes []candidate) (Group, error) {
	group, exists := c.cloud[name]
	err := group.Err
	if !exists {
		group, err = c.groups.Create(ctx, name)
	}
	if err != nil {
		return group, err
	}
	wanted := decide(name, nodes, group.Members, c.fallbackAll)
	upsert, remove := difference(group.Members, wanted)
	if len(upsert) == 0 && len(remove) == 0 {
		return group, nil
	}
	if group, err = c.groups.Change(ctx, group, upsert, remove); err != nil {
		return group, err
	}
	klog.FromContext(ctx).Info("Changed members of node group", "group", name, "nodeGroup", group.ID,
		"written", len(upsert), "removed", len(remove), "members", len(wanted))
	return group, nil
}

func (c *Controller) candidates() ([]candidate, error) {
	nodes, err := c.nodes.Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	list := make([]candidate, 0, len(nodes))
	present := make(map[types.UID]bool, len(nodes))
	for _, node := range nodes {
		o := observe(node)
		n := o.candidate(node.Name, c.instanceID)
		n.mark, n.invalid = c.marks.parse(node, o)
		list = append(list, n)
		present[node.UID] = true
	}
	c.marks.forgetAllBut(present)
	return list, nil
}
