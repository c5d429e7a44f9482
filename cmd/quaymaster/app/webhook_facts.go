package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"quaymaster.dev/cmd/internal/connect"
	"quaymaster.dev/internal/cloudmetrics"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/kube/policystore"
	"quaymaster.dev/internal/lookup"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/volume"
)

// admissionCloudTimeout limits one cloud call made by admission, however many requests wait for it.
const admissionCloudTimeout = 5 * time.Second

// readsPerSecond and readsAtOnce limit the reads of PersistentVolumes, for growing claims.
const (
	readsPerSecond = 20
	readsAtOnce    = 100
)

// facts holds what admission knows besides the object under review. It contains no objects of users.
type facts struct {
	policies *policystore.Store
	classes  *classes
	// cloud is nil if there is no cloud config.
	cloud *lookup.Lookup
	api   kubernetes.Interface
	// reads bounds what requests can cost the API server.
	reads *rate.Limiter
}

func newFacts(cfg *rest.Config, api kubernetes.Interface, cloudConfig *config.Config) (*facts, error) {
	policies, err := policystore.NewClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	f := newStorageFacts(api)
	f.policies = policystore.New(policystore.Options{API: policies, Cluster: api})
	if cloudConfig == nil {
		return f, nil
	}
	measured, err := cloudmetrics.New(legacyregistry.Registerer())
	if err != nil {
		return nil, err
	}
	options := connect.Cloud(*cloudConfig, webhookUserAgent)
	options.Timeout, options.OnCall = admissionCloudTimeout, measured.Call
	client, err := cloudapi.New(options)
	if err != nil {
		return nil, fmt.Errorf("--cloud-config: %w", err)
	}
	if err := measured.Pace(client.Pace); err != nil {
		return nil, err
	}
	f.cloud = lookup.New(lookup.Options{Cloud: client, OnLookup: measured.Lookup})
	return f, nil
}

// newStorageFacts returns facts about volumes only, without a cloud.
func newStorageFacts(api kubernetes.Interface) *facts {
	return &facts{api: api, classes: newClasses(api), reads: rate.NewLimiter(readsPerSecond, readsAtOnce)}
}

// labeler returns nil without a cloud.
func (f *facts) labeler() cloudprovider.PVLabeler {
	if f.cloud == nil {
		return nil
	}
	return f.cloud
}

// run keeps what admission knows up to date until ctx ends.
func (f *facts) run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { f.policies.Run(ctx) })
	running.Go(func() { f.classes.run(ctx) })
	if f.cloud != nil {
		running.Go(func() { f.cloud.Run(ctx) })
	}
	running.Wait()
	return nil
}

// VolumeType returns nil if the cloud has no volume type of this name.
func (f *facts) VolumeType(name string) (*volume.Type, error) {
	t, err := f.cloud.VolumeType(name)
	switch {
	case errors.Is(err, lookup.ErrUnknownType):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &volume.Type{
		Name: t.Name, MaxSizeGiB: int64(t.MaxSizeGiB), StepGiB: int64(t.StepGiB), OnlineExpansion: t.OnlineExpansion,
	}, nil
}

// Volume returns the attachment of a PersistentVolume's volume, or nil if the volume does not belong to the cloud.
func (f *facts) Volume(ctx context.Context, persistentVolume string) (*volume.Attachment, error) {
	if err := f.reads.Wait(ctx); err != nil {
		return nil, fmt.Errorf("too many reads of persistent volumes: %w", err)
	}
	pv, err := f.api.CoreV1().PersistentVolumes().Get(ctx, persistentVolume, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get persistent volume %s: %w", persistentVolume, err)
	}
	if !volume.Zoned(pv) {
		return nil, nil
	}
	found, err := f.cloud.FreshVolume(ctx, pv.Spec.CSI.VolumeHandle)
	if errors.Is(err, cloudprovider.DiskNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &volume.Attachment{VolumeID: found.ID, Instance: found.AttachedTo}, nil
}

// classes caches the StorageClasses, of which there are few.
type classes struct {
	factory  informers.SharedInformerFactory
	informer storageinformers.StorageClassInformer
}

func newClasses(api kubernetes.Interface) *classes {
	factory := informers.NewSharedInformerFactoryWithOptions(api, 0,
		informers.WithTransform(cache.TransformStripManagedFields()))
	c := &classes{factory: factory, informer: factory.Storage().V1().StorageClasses()}
	c.informer.Informer()
	return c
}

// run maintains the cache until ctx ends.
func (c *classes) run(ctx context.Context) {
	c.factory.StartWithContext(ctx)
	<-ctx.Done()
	c.factory.Shutdown()
}

func (c *classes) hasSynced() bool { return c.informer.Informer().HasSynced() }

// StorageClass returns a class from the cache. A class that was created a moment ago may not be there yet: its claims
// are then admitted without the checks that it would allow.
func (c *classes) StorageClass(name string) (*storagev1.StorageClass, error) {
	if !c.hasSynced() {
		return nil, errors.New("the storage classes are not synced yet")
	}
	return c.informer.Lister().Get(name)
}
