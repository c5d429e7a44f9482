package ingressnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/kube/brakes"
)

// reasonHeld is the reason of Events about members that the brake keeps.
const reasonHeld = "IngressNodesHeld"

// immediately is the delay of a sync that goes on where the last one stopped.
const immediately = time.Nanosecond

// sync reconciles the groups in the cloud and the requested ones in turn, up to the first that it has changed: the next sync
// sees what has happened meanwhile, so that a Node that must leave the group of one namespace does not wait for fifty groups
// of another. The failure of a group does not affect the others, but if it is because of the pace of calls, the other groups
// of its namespace wait, too. sync returns when to sync again if nothing changes before; 0 means that there is no need to or,
// with an error, that it is not known.
func (c *Controller) sync(ctx context.Context, checkDrift bool) (time.Duration, error) {
	requests := c.requested()
	if err := c.load(ctx, checkDrift); err != nil {
		for name, r := range requests {
			c.settle(name, r, "", err)
		}
		return 0, err
	}
	deleted := c.deletions.snapshot()
	now := c.o.Clock.Now()
	nodes, err := c.candidates(now)
	if err != nil {
		return 0, err
	}
	asked, err := c.askedFor()
	if err != nil {
		return 0, err
	}
	names := c.turns.order(slices.Concat(slices.Collect(maps.Keys(c.cloud)), slices.Collect(maps.Keys(requests))), asked)
	p := pass{next: sooner(c.drains.next(now), c.marks.next(now))}
	if err := c.readMachines(ctx, names, nodes); err != nil {
		p.errs, p.unsettled = append(p.errs, err), slices.Clone(names)
	}
	c.syncGroups(ctx, &p, names, requests, func(name string) situation {
		return situation{nodes: nodes, deleted: deleted, namespace: c.turns.namespace(name)}
	})
	c.countHeld()
	if checkDrift && c.o.Services != nil {
		p.errs = append(p.errs, c.collect(ctx, asked))
	}
	c.marks.settled(p.unsettled)
	c.deletions.settled(deleted, p.unsettled)
	if len(p.errs) > 0 {
		return p.retry, errors.Join(p.errs...)
	}
	return p.next, nil
}

// pass is what one sync has found.
type pass struct {
	// next is when to sync again if nothing changes before, retry the same if there are errors; 0 means that it is not known.
	next, retry time.Duration
	errs        []error
	// unsettled are the groups that Nodes may have yet to leave.
	unsettled []string
}

// syncGroups syncs groups in turn, up to the first that it has changed.
func (c *Controller) syncGroups(
	ctx context.Context, p *pass, names []string, requests map[string]*request, in func(name string) situation,
) {
	postponed := sets.Set[string]{}
	for i, name := range names {
		s := in(name)
		if postponed.Has(s.namespace) {
			p.unsettled = append(p.unsettled, name)
			continue
		}
		before := c.cloud[name]
		again, err := c.syncGroup(ctx, name, s)
		p.next = sooner(p.next, again)
		if err != nil && !errors.Is(err, ErrTooManyGroups) {
			p.errs, p.unsettled = append(p.errs, err), append(p.unsettled, name)
			c.turns.took(name)
			after := c.o.RetryAfter(err)
			p.retry = sooner(p.retry, after)
			if after > 0 && s.namespace != "" {
				postponed.Insert(s.namespace)
			}
		}
		if r := requests[name]; r != nil {
			c.settle(name, r, c.cloud[name].ID, err)
		}
		if err == nil {
			c.noteID(name)
		}
		if c.cloud[name].Revision == before.Revision {
			continue
		}
		c.turns.took(name)
		if rest := names[i+1:]; len(rest) > 0 {
			p.unsettled, p.next, p.retry = append(p.unsettled, rest...), immediately, immediately
		}
		return
	}
}

// noteID notes the ID of a group in the cloud and calls back if it has got another one.
func (c *Controller) noteID(name string) {
	former, id := c.ids[name], c.cloud[name].ID
	c.ids[name] = id
	if former == "" || former == id {
		return
	}
	for _, f := range c.onMoved {
		f()
	}
}

func (c *Controller) countHeld() {
	total := 0
	for _, n := range c.held {
		total += n
	}
	c.heldMembers.Set(float64(total))
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
	groups, revision, changed, err := c.o.Groups.List(ctx, since)
	if err != nil {
		return fmt.Errorf("list node groups: %w", err)
	}
	if changed {
		c.cloud = make(map[string]Group, len(groups))
		for _, g := range groups {
			c.cloud[g.Name] = g
		}
		c.loaded, c.revision = true, revision
		unlisted := func(name string) bool { return c.cloud[name].ID == "" }
		maps.DeleteFunc(c.brakes, func(name string, _ *brake) bool { return unlisted(name) })
		maps.DeleteFunc(c.held, func(name string, _ int) bool { return unlisted(name) })
	}
	return nil
}

// situation is what a group's members depend on besides the group itself.
type situation struct {
	nodes []candidate
	// deleted are the instances whose Nodes were deleted.
	deleted departures
	// namespace is the only one whose Services asked for the group last; "" if several did or none.
	namespace string
}

// syncGroup reconciles a group. After a failure it is unknown whether the write took place or another writer came first, so
// the groups are listed again before the next attempt, unless the cloud only asked to wait.
func (c *Controller) syncGroup(ctx context.Context, name string, s situation) (time.Duration, error) {
	group, next, err := c.write(ctx, name, s)
	switch {
	case errors.Is(err, ErrTooManyGroups):
		return 0, err
	case err != nil:
		c.loaded = c.loaded && c.o.RetryAfter(err) > 0
		return 0, fmt.Errorf("node group %s: %w", name, err)
	}
	c.cloud[name] = group
	return next, nil
}

// write creates the group if it does not exist and writes the members that differ.
func (c *Controller) write(ctx context.Context, name string, s situation) (Group, time.Duration, error) {
	group, exists := c.cloud[name]
	err := group.Err
	if !exists {
		group, err = c.create(ctx, name, s.namespace)
	}
	if err != nil {
		return group, 0, err
	}
	now := c.o.Clock.Now()
	if c.brakes[name] == nil {
		c.brakes[name] = newBrake(c.o.MaxRemovedPercent, now)
	}
	limit := c.brakes[name]
	allowance := limit.allowance(now, len(group.Members))
	if c.o.Resumed() {
		allowance = len(group.Members)
	}
	d := c.members(name, group, s, allowance)
	c.report(ctx, name, s, d)
	next := time.Duration(0)
	switch {
	case d.joined:
		next = settle
	case len(d.held) > 0:
		next = limit.next(now)
	}
	upsert, remove := difference(group.Members, d.members)
	if len(upsert) == 0 && len(remove) == 0 {
		return group, next, nil
	}
	if group, err = c.o.Groups.Change(ctx, group, upsert, remove, s.namespace); err != nil {
		return group, 0, err
	}
	c.revision = ""
	limit.left.Spend(d.braked, now)
	if len(d.held) > 0 && !d.joined {
		next = limit.next(now)
	}
	klog.FromContext(ctx).Info("Changed members of node group", "group", name, "nodeGroup", group.ID,
		"written", len(upsert), "removed", len(remove), "members", len(d.members), "held", len(d.held))
	return group, next, nil
}

func (c *Controller) create(ctx context.Context, name, namespace string) (Group, error) {
	if len(c.cloud) >= c.o.MaxGroups {
		return Group{}, fmt.Errorf("%w: group %q is not created, because the cluster has %d already; use one of them, "+
			"or raise ingressNodes.maxGroups in the cloud config", ErrTooManyGroups, name, len(c.cloud))
	}
	if own := c.ownGroups(namespace); own >= (c.o.MaxGroups+1)/2 {
		return Group{}, fmt.Errorf("%w: group %q is not created, because namespace %s has %d already, half of those that the "+
			"cluster may have; use one of them, or raise ingressNodes.maxGroups in the cloud config",
			ErrTooManyGroups, name, namespace, own)
	}
	c.revision = ""
	return c.o.Groups.Create(ctx, name, namespace)
}

// ownGroups returns how many groups only one namespace has asked for. It leaves half of all groups to the others.
func (c *Controller) ownGroups(namespace string) int {
	own := 0
	for name := range c.cloud {
		if namespace != "" && c.turns.namespace(name) == namespace {
			own++
		}
	}
	return own
}

// members decides which members a group has from now on. Without any Node, none leaves but those whose machine is
// deleted: a cluster always has Nodes, so the list is wrong.
func (c *Controller) members(name string, group Group, s situation, allowance int) departure {
	byInstance := map[string]candidate{}
	for _, n := range s.nodes {
		byInstance[n.instanceID] = n
	}
	gone := func(id string) bool {
		machine := c.machines.get(id)
		_, node := byInstance[id]
		return !node && (s.deleted.pending(id, name) || machine != nil && machine.Deleted)
	}
	released := func(id string) bool {
		n, node := byInstance[id]
		return gone(id) || node && (n.barred() || n.draining || slices.Contains(n.unmarked, name))
	}
	chosen := choose(name, s.nodes, group.Members, c.o.FallbackAll)
	wanted := filter(decide(chosen, s.nodes, group.Members), func(m Member) bool { return !gone(m.InstanceID) })
	if len(s.nodes) == 0 {
		allowance = 0
	}
	return depart(group.Members, wanted, released, allowance)
}

// report makes the brake visible when it begins to hold members: the group has more members than it should. Members
// that only wait for others to join are not held.
func (c *Controller) report(ctx context.Context, name string, s situation, d departure) {
	if d.joined {
		return
	}
	before := c.held[name]
	c.held[name] = len(d.held)
	if before > 0 || len(d.held) == 0 {
		return
	}
	klog.FromContext(ctx).Info("Members stay in node group because too many would leave at once", "group", name,
		"held", len(d.held), "maxRemovedPercentPerMinute", c.o.MaxRemovedPercent)
	for _, n := range s.nodes {
		if !slices.Contains(d.held, n.instanceID) {
			continue
		}
		if node, err := c.o.Nodes.Lister().Get(n.name); err == nil {
			c.o.Recorder.Eventf(node, corev1.EventTypeWarning, reasonHeld,
				"%d nodes would leave ingress group %s at once; %d%% of its members (at least one) leave per minute, and "+
					"the last one stays; to remove a node now, annotate it with %s=false; to lift the limit for an hour, run: "+
					"quayctl resume %s", len(d.held)+d.braked, name, c.o.MaxRemovedPercent, Annotation, brakes.PoolMembers)
			return
		}
	}
}

// candidates returns the Nodes, ordered by name. What waits for a time is then due later than now.
func (c *Controller) candidates(now time.Time) ([]candidate, error) {
	nodes, err := c.o.Nodes.Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	list := make([]candidate, 0, len(nodes))
	present := make(map[types.UID]bool, len(nodes))
	for _, node := range nodes {
		o := observe(node)
		n := o.candidate(node.Name, c.o.InstanceID)
		n.draining, n.drained = c.drains.observe(node.UID, o, now)
		n.mark, n.invalid = c.marks.parse(node, o, n.draining, now)
		n.draining = n.draining || n.mark.draining
		n.unmarked = slices.Clone(c.marks.of(node.UID).unmarked)
		list = append(list, n)
		present[node.UID] = true
	}
	c.marks.forgetAllBut(present)
	c.drains.forgetAllBut(present)
	c.machines.forgetNodes(present)
	return list, nil
}

// readMachines completes the Nodes with what the cloud knows of their instances, as far as they may serve a group.
func (c *Controller) readMachines(ctx context.Context, groups []string, nodes []candidate) error {
	needed := map[string][]string{}
	for _, group := range groups {
		current := c.cloud[group].Members
		for _, m := range current {
			needed[m.InstanceID] = nil
		}
		for _, n := range choose(group, nodes, current, c.o.FallbackAll) {
			if n.instanceID != "" {
				needed[n.instanceID] = n.addresses
			}
		}
	}
	for _, n := range nodes {
		if _, ok := needed[n.instanceID]; ok {
			needed[n.instanceID] = n.addresses
		}
	}
	err := c.machines.refresh(ctx, needed)
	for i := range nodes {
		n := &nodes[i]
		if _, ok := needed[n.instanceID]; !ok {
			continue
		}
		n.machine = c.machines.get(n.instanceID)
		if node, err := c.o.Nodes.Lister().Get(n.name); err == nil {
			c.machines.report(node, *n)
		}
	}
	c.machines.forgetInstances(needed)
	return err
}
