package service

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// watch enqueues Services that change.
func (c *Controller) watch() error {
	err := c.services.AddIndexers(cache.Indexers{byUID: func(obj any) ([]string, error) {
		svc, ok := obj.(*corev1.Service)
		if !ok {
			return nil, nil
		}
		return []string{string(svc.UID)}, nil
	}})
	if err != nil {
		return err
	}
	_, err = c.services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if svc, ok := obj.(*corev1.Service); ok {
				c.added(svc)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			before, ok1 := oldObj.(*corev1.Service)
			after, ok2 := newObj.(*corev1.Service)
			switch {
			case !ok1 || !ok2:
			case before.UID != after.UID:
				c.deleted(before)
				c.added(after)
			default:
				c.updated(before, after)
			}
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			if svc, ok := obj.(*corev1.Service); ok {
				c.deleted(svc)
			}
		},
	})
	return err
}

// concerns reports whether a Service needs anything.
func (c *Controller) concerns(svc *corev1.Service) bool {
	return c.ownership.decide(svc, c.o.Balancers.Owned(svc)) != leave
}

func (c *Controller) added(svc *corev1.Service) {
	switch c.ownership.decide(svc, c.o.Balancers.Owned(svc)) {
	case leave:
		return
	case ensure:
		if !configured(svc) {
			c.progress.changed(svc.UID)
		}
	case remove:
	}
	c.queue.Add(svc.UID)
}

// updated enqueues a Service if what it asks for changed, or if another writer changed what is ours of it.
func (c *Controller) updated(before, after *corev1.Service) {
	known, ours := c.written.informed(after)
	same := sameRequest(before, after)
	if known || same && (ours || sameEntries(before, after)) {
		return
	}
	action := c.ownership.decide(after, c.o.Balancers.Owned(after))
	if action == leave {
		c.progress.forget(after.UID)
		return
	}
	if action == ensure && !same {
		c.progress.changed(after.UID)
	}
	c.queue.Add(after.UID)
}

// deleted forgets a Service. If it had a load balancer, its finalizer was removed by force, or the API server has lost
// its data: the load balancer is kept.
func (c *Controller) deleted(svc *corev1.Service) {
	c.written.forget(svc.UID)
	c.progress.forget(svc.UID)
	c.told.forget(svc.UID, failing, reasonDeleting)
}
