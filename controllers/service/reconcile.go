package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"quaymaster.dev/internal/kube/condition"
	"quaymaster.dev/internal/visible"
)

// passes bounds how often one call of reconcile starts again because the Service changed meanwhile.
const passes = 3

// reconcile brings a Service and its load balancer closer to each other. It starts again with the current state if the
// Service changed meanwhile.
func (c *Controller) reconcile(ctx context.Context, svc *corev1.Service) (State, error) {
	for pass := 1; ; pass++ {
		state, err := c.pass(ctx, svc)
		if !errors.Is(err, errStale) || pass == passes {
			return state, err
		}
		now, readErr := c.reread(ctx, svc)
		if readErr != nil {
			return state, readErr
		}
		if now == nil {
			return State{}, nil // the informer will show that it is gone
		}
		svc = now
	}
}

func (c *Controller) pass(ctx context.Context, svc *corev1.Service) (State, error) {
	owned := c.o.Balancers.Owned(svc)
	switch c.ownership.decide(svc, owned) {
	case ensure:
		return c.ensure(ctx, svc)
	case remove:
		return c.remove(ctx, svc, owned)
	case leave:
	}
	return State{}, nil
}

// ensure puts the finalizer on the Service before anything is created for it, and its address into the status together
// with, or after, the record of the load balancer.
func (c *Controller) ensure(ctx context.Context, svc *corev1.Service) (State, error) {
	asked := c.progress.start(svc.UID)
	claimed, err := c.write(ctx, svc, c.ownership.claim)
	if err != nil {
		return State{}, err
	}
	if !Held(svc) {
		c.event(svc, reasonEnsuring, "Ensuring load balancer")
	}
	state, failure := c.o.Balancers.Ensure(ctx, claimed)
	stored, err := c.write(ctx, claimed, func(svc *corev1.Service) { store(svc, state, c.o.Clock.Now()) })
	if failure != nil {
		failure = fmt.Errorf("failed to ensure load balancer: %w", failure)
		c.failed(claimed, failure)
	}
	if failure != nil || err != nil {
		return state, errors.Join(failure, err)
	}
	c.progress.reached(asked, stored, stored != claimed)
	c.announce(svc, claimed, stored)
	return state, nil
}

// announce emits the Events about what a pass changed. Passes that change nothing have none.
func (c *Controller) announce(svc, before, after *corev1.Service) {
	was := meta.FindStatusCondition(before.Status.Conditions, condition.Configured)
	is := meta.FindStatusCondition(after.Status.Conditions, condition.Configured)
	switch {
	case !configured(after):
		// Of a difference that is only reported, the cloud's side has an Event of its own.
		if configured(before) && meta.IsStatusConditionTrue(after.Status.Conditions, condition.Progressing) {
			c.event(svc, reasonEnsuring, "Ensuring load balancer")
		}
	case was == nil || *was != *is,
		before.Annotations[AnnotationRecord] != after.Annotations[AnnotationRecord],
		!servicehelpers.LoadBalancerStatusEqual(&before.Status.LoadBalancer, &after.Status.LoadBalancer):
		c.event(svc, reasonEnsured, "Ensured load balancer")
	}
}

// remove removes the load balancer of a Service and, once the cloud has confirmed that it is gone, everything of ours
// from the Service, in one write.
func (c *Controller) remove(ctx context.Context, svc *corev1.Service, owned bool) (State, error) {
	c.progress.forget(svc.UID)
	state, failure := c.o.Balancers.Remove(ctx, svc)
	if failure == nil && state.Gone {
		if _, err := c.write(ctx, svc, func(svc *corev1.Service) { c.ownership.release(svc, owned) }); err != nil {
			return state, err
		}
		c.event(svc, reasonDeleted, "Deleted load balancer")
		c.told.forget(svc.UID, failing, reasonDeleting)
		return State{}, nil
	}
	_, err := c.write(ctx, svc, func(svc *corev1.Service) {
		// What is published stays until the load balancer is gone.
		store(svc, State{Record: state.Record, Conditions: state.Conditions}, c.o.Clock.Now())
	})
	switch {
	case failure != nil:
		failure = fmt.Errorf("failed to delete load balancer: %w", failure)
		c.failed(svc, failure)
	case c.told.first(svc.UID, reasonDeleting):
		c.event(svc, reasonDeleting, "Deleting load balancer")
	}
	return state, errors.Join(failure, err)
}

// Rehearse calls Balancers for a Service as a pass of a Controller with the loadBalancerClass would, and writes nothing
// to the Service.
func Rehearse(ctx context.Context, balancers Balancers, class string, svc *corev1.Service) (State, error) {
	o := ownership{finalizer: Finalizer(class)}
	switch o.decide(svc, balancers.Owned(svc)) {
	case ensure:
		claimed := svc.DeepCopy()
		o.claim(claimed)
		return balancers.Ensure(ctx, claimed)
	case remove:
		return balancers.Remove(ctx, svc)
	case leave:
	}
	return State{}, nil
}

// longestMessage is the API's limit for a condition's message, in bytes.
const longestMessage = 32768

// store writes a State to a Service.
func store(svc *corev1.Service, state State, now time.Time) {
	if state.Record != "" {
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, AnnotationRecord, state.Record)
	}
	if state.Published != nil {
		svc.Status.LoadBalancer = *state.Published.DeepCopy()
	}
	for _, c := range state.Conditions {
		c.ObservedGeneration = svc.Generation
		// The API stores whole seconds.
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		c.Message = visible.Cut(c.Message, longestMessage)
		// This keeps the time of the last transition if the status is the same.
		meta.SetStatusCondition(&svc.Status.Conditions, c)
	}
}

// configured reports whether the cloud has what the Service asks for.
func configured(svc *corev1.Service) bool {
	return meta.IsStatusConditionTrue(svc.Status.Conditions, condition.Configured)
}

// serving reports whether the data plane serves what the Service asks for. Not every cloud knows.
func serving(svc *corev1.Service) bool {
	return configured(svc) && meta.IsStatusConditionFalse(svc.Status.Conditions, condition.Degraded)
}
