// Package persistentvolume completes PersistentVolumes of the cloud that were created while the zones of their volumes
// could not be determined: it adds the labels of the zones and, if there is none yet, the node affinity.
package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/controllers/worker"
	"quaymaster.dev/internal/rules/volume"
)

// Name is the controller's name in the --controllers flag: it must not change.
const Name = "persistent-volume-zone-controller"

const (
	// workers bounds the concurrent calls to the cloud and to the API server, however many PersistentVolumes there are.
	workers = 4
	// A failed attempt is retried after retryBase; the delay doubles with every failure, up to retryMax: soon after the
	// cloud is back.
	retryBase = time.Second
	retryMax  = 10 * time.Second
	// recheckPeriod is the delay after a problem that does not pass with time, such as a volume that does not exist.
	recheckPeriod = 5 * time.Minute
	// callTimeout bounds one attempt: a cloud that hangs must not block a worker after it is back.
	callTimeout = 5 * time.Second
)

// Options are the dependencies of a Controller.
type Options struct {
	// PersistentVolumes must come from a factory that is started after New.
	PersistentVolumes coreinformers.PersistentVolumeInformer
	// Client patches PersistentVolumes.
	Client typedcorev1.PersistentVolumesGetter
	// Labeler queries the cloud; it must respect the deadline of the context.
	Labeler cloudprovider.PVLabeler
	// Recorder records Events about PersistentVolumes.
	Recorder record.EventRecorder
	// Clock times retries; nil means the real clock.
	Clock clock.WithTicker
}

// Controller adds missing zones to PersistentVolumes.
type Controller struct {
	volumes coreinformers.PersistentVolumeInformer
	client  typedcorev1.PersistentVolumesGetter
	labeler cloudprovider.PVLabeler
	reports *reports
	queue   *worker.Queue[string]
}

// New creates a Controller; Run runs it.
func New(o Options) (*Controller, error) {
	c := &Controller{
		volumes: o.PersistentVolumes, client: o.Client, labeler: o.Labeler, reports: &reports{recorder: o.Recorder},
	}
	c.queue = worker.New(worker.Options[string]{
		Name: Name, Workers: workers, RetryBase: retryBase, RetryMax: retryMax, Timeout: callTimeout, Process: c.process,
		Clock: o.Clock,
	})
	_, err := o.PersistentVolumes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if pv, ok := obj.(*corev1.PersistentVolume); ok && incomplete(pv) {
				c.queue.Add(pv.Name)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			before, ok1 := oldObj.(*corev1.PersistentVolume)
			after, ok2 := newObj.(*corev1.PersistentVolume)
			// Other changes, and resyncs without a change, must not shorten the delay before the next attempt.
			if ok1 && ok2 && (incomplete(before) || incomplete(after)) && !alike(before, after) {
				c.queue.Add(after.Name)
			}
		},
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				c.queue.Add(name)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch persistent volumes: %w", err)
	}
	return c, nil
}

// incomplete reports whether the zones of a PersistentVolume are missing.
func incomplete(pv *corev1.PersistentVolume) bool {
	return pv.DeletionTimestamp == nil && volume.Zoned(pv) && !volume.Complete(pv)
}

// alike reports whether two states of a PersistentVolume are completed in the same way, if at all.
func alike(a, b *corev1.PersistentVolume) bool {
	_, trustedA := volume.Trusted(a)
	_, trustedB := volume.Trusted(b)
	return a.UID == b.UID && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) && trustedA == trustedB &&
		maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.NodeAffinity, b.Spec.NodeAffinity)
}

// Metrics returns the collector that counts failures.
func (c *Controller) Metrics() prometheus.Collector { return c.queue }

// Run completes PersistentVolumes until ctx ends. It returns when no goroutine of the controller runs any more.
func (c *Controller) Run(ctx context.Context) { c.queue.Run(ctx, c.volumes.Informer().HasSynced) }

func (c *Controller) process(ctx context.Context, name string) worker.Result {
	logger := klog.FromContext(ctx).WithValues("persistentVolume", klog.KRef("", name))
	err := c.sync(klog.NewContext(ctx, logger), name)
	switch {
	case err == nil:
		return worker.Done()
	case errors.Is(err, cloudprovider.DiskNotFound), apierrors.IsInvalid(err):
		logger.Info("Could not complete the zones of a persistent volume, will check again",
			"err", err, "after", recheckPeriod)
		return worker.Again(recheckPeriod)
	case c.queue.NumRequeues(name) == 0:
		logger.Error(err, "Could not complete the zones of a persistent volume, will retry")
		return worker.Retry()
	default:
		// An outage would otherwise log one line for every attempt.
		logger.V(2).Info("Still could not complete the zones of a persistent volume", "err", err)
		return worker.Retry()
	}
}
