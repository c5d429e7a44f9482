package ingressnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/rules/loadbalancer"
)

// unusedTime is how long a group must be unused before it is deleted.
const unusedTime = 30 * time.Minute

// ErrTooManyGroups is returned for a group that is not created because the cluster has as many as it may have.
var ErrTooManyGroups = errors.New("too many ingress groups")

// ErrInUse is returned by Groups.Delete for a group that pools refer to.
var ErrInUse = errors.New("pools of load balancers refer to the node group")

// collect deletes groups that have been unused for unusedTime. A group is used if a Service asks for it, by its
// annotation or in that its load balancer was reconciled, or if the cloud refuses the deletion because pools refer to
// it; then its time starts again.
func (c *Controller) collect(ctx context.Context, asked map[string]sets.Set[string]) error {
	now := c.o.Clock.Now()
	maps.DeleteFunc(c.unusedSince, func(name string, _ time.Time) bool { return asked[name] != nil || c.cloud[name].ID == "" })
	var errs []error
	for name, group := range c.cloud {
		since, unused := c.unusedSince[name]
		switch {
		case group.Err != nil || asked[name] != nil:
		case !unused:
			c.unusedSince[name] = now
		case now.Sub(since) >= unusedTime:
			errs = append(errs, c.delete(ctx, name, group))
		}
	}
	return errors.Join(errs...)
}

// askedFor returns the groups that Services name, with their namespaces, and those that were requested through ID within
// unusedTime.
func (c *Controller) askedFor() (map[string]sets.Set[string], error) {
	asked := map[string]sets.Set[string]{}
	if c.o.Services == nil {
		return asked, nil
	}
	services, err := c.o.Services.Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	for _, service := range services {
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		group, named := service.Annotations[annotationGroup]
		if !named {
			group = defaultGroup
		}
		if asked[group] == nil {
			asked[group] = sets.Set[string]{}
		}
		asked[group].Insert(service.Namespace)
	}
	now := c.o.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, r := range c.requests {
		if now.Sub(r.asked) < unusedTime && asked[name] == nil {
			asked[name] = sets.Set[string]{}
		}
	}
	return asked, nil
}

// delete deletes a group. Its request is dropped first, so that a Service that asks for the group from now on waits for
// the next sync.
func (c *Controller) delete(ctx context.Context, name string, group Group) error {
	c.mu.Lock()
	if r := c.requests[name]; r != nil && c.o.Clock.Since(r.asked) < unusedTime {
		c.mu.Unlock()
		return nil
	}
	delete(c.requests, name)
	c.mu.Unlock()
	err := c.o.Groups.Delete(ctx, group)
	if errors.Is(err, ErrInUse) {
		c.unusedSince[name] = c.o.Clock.Now()
		return nil
	}
	if err != nil {
		c.loaded = false
		return fmt.Errorf("delete unused node group %s: %w", name, err)
	}
	c.revision = ""
	delete(c.cloud, name)
	delete(c.unusedSince, name)
	delete(c.brakes, name)
	delete(c.held, name)
	klog.FromContext(ctx).Info("Deleted unused node group", "group", name, "nodeGroup", group.ID)
	return nil
}

// annotationGroup is the annotation of a Service that names its group.
const annotationGroup = loadbalancer.Prefix + "ingress-group"
