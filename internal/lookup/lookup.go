// Package lookup reads volumes and volume types for admission, where a user waits for the answer. Volume types are read
// in the background. Reads of volumes have a timeout and are limited in number and rate, concurrent reads of the same
// volume are merged, and results are cached for a short time, including failures.
package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/volume"
)

const (
	// timeout limits one read, including the wait for its turn. Callers may stop waiting earlier.
	timeout = 2 * time.Second
	// maxConcurrent is the maximum number of concurrent reads.
	maxConcurrent = 16
	// readsPerSecond is the number of reads per second, on average, and readsAtOnce the number of reads at once. They
	// bound what callers can cost the cloud.
	readsPerSecond, readsAtOnce = 20, 100
	// maxEntries is the maximum number of cached volumes.
	maxEntries = 4096
	// ttl is how long a volume is cached, and the interval at which Run reads the volume types.
	ttl = time.Minute
	// notFoundTTL is how long a missing volume is cached, which may be created soon.
	notFoundTTL = 2 * time.Second
	// failureTTL is how long a failure is cached, so that in a burst of requests not each one waits for a cloud that does
	// not respond.
	failureTTL = time.Second
	// typesRetry is the interval at which Run reads the volume types while the cloud does not answer.
	typesRetry = 5 * time.Second
	// maxTypesAge is how long volume types are used if they cannot be read again.
	maxTypesAge = 10 * time.Minute
)

// ErrUnknownType is returned if the cloud has no volume type of that name.
var ErrUnknownType = errors.New("the cloud has no such volume type")

// Cloud is the part of the cloud's client that a Lookup needs.
type Cloud interface {
	Volume(ctx context.Context, id string) (*cloudv1.Volume, error)
	VolumeTypes(ctx context.Context, o cloudapi.ListOptions) (*cloudv1.List[cloudv1.VolumeType], error)
}

// Options configures a Lookup.
type Options struct {
	// Cloud is the client of the cloud's API.
	Cloud Cloud
	// OnLookup, if set, is called with the result of every lookup.
	OnLookup func(Kind, Result)
	// Clock defaults to the real clock.
	Clock clock.Clock
}

// Kind is the kind of a lookup. It is a label value of metrics.
type Kind string

// The kinds of lookups.
const (
	KindVolume      Kind = "volume"
	KindVolumeTypes Kind = "volume-types"
)

// Result is the result of a lookup. It is a label value of metrics.
type Result string

// The results of lookups. A volume that does not exist is an answer, too.
const (
	// ResultHit means that the answer was cached.
	ResultHit Result = "hit"
	// ResultMiss means that the answer was read from the cloud.
	ResultMiss Result = "miss"
	// ResultUnavailable means that there was no answer.
	ResultUnavailable Result = "unavailable"
)

// Lookup reads volumes and volume types. It is safe for concurrent use.
type Lookup struct {
	cloud   Cloud
	volumes *memory
	types   *types
}

var _ cloudprovider.PVLabeler = (*Lookup)(nil)

// New returns a Lookup. It does no I/O.
func New(o Options) *Lookup {
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	if o.OnLookup == nil {
		o.OnLookup = func(Kind, Result) {}
	}
	g := newGate(o)
	return &Lookup{
		cloud:   o.Cloud,
		volumes: newMemory(g, o),
		types:   &types{gate: g, cloud: o.Cloud, observe: func(r Result) { o.OnLookup(KindVolumeTypes, r) }, clock: o.Clock},
	}
}

// Volume returns a volume, which may be cached. The error wraps cloudprovider.DiskNotFound if the cloud answered that
// the volume does not exist; any other error proves nothing about the volume. The result is shared and must not be
// modified.
func (l *Lookup) Volume(ctx context.Context, id string) (*cloudv1.Volume, error) {
	return l.volumes.get(ctx, id, l.readVolume(id))
}

// FreshVolume is like Volume, but without the cache. It is for what may change at any time, such as whether the volume
// is attached.
func (l *Lookup) FreshVolume(ctx context.Context, id string) (*cloudv1.Volume, error) {
	return l.volumes.fresh(ctx, id, l.readVolume(id))
}

// readVolume reads a volume. The error distinguishes a volume that does not exist from a cloud that does not respond.
func (l *Lookup) readVolume(id string) func(context.Context) (*cloudv1.Volume, error) {
	return func(ctx context.Context) (*cloudv1.Volume, error) {
		found, err := l.cloud.Volume(ctx, id)
		switch {
		case cloudapi.IsAbsent(err):
			return nil, fmt.Errorf("read volume: %w: %w", cloudprovider.DiskNotFound, err)
		case err != nil:
			return nil, fmt.Errorf("read volume: %w", err)
		}
		return found, nil
	}
}

// VolumeType returns the volume type of that name from memory, without waiting for the cloud. The error wraps
// ErrUnknownType if the cloud has none; any other error proves nothing about the type.
func (l *Lookup) VolumeType(name string) (*cloudv1.VolumeType, error) { return l.types.get(name) }

// Run keeps the volume types up to date until the context ends. Without it, none is known.
func (l *Lookup) Run(ctx context.Context) { l.types.run(ctx) }

// GetLabelsForVolume returns the topology labels of a volume of this cloud, and nil for other volumes. Its errors are
// those of Volume; a response without a zone, too, proves nothing about the volume.
func (l *Lookup) GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	if !volume.Zoned(pv) {
		return nil, nil
	}
	found, err := l.Volume(ctx, pv.Spec.CSI.VolumeHandle)
	if err != nil {
		return nil, fmt.Errorf("persistent volume %s: %w", pv.Name, err)
	}
	zones := found.Zones
	if len(zones) == 0 && found.Zone != "" {
		zones = []string{found.Zone}
	}
	labels, err := volume.Labels(zones, found.Region)
	if err != nil {
		return nil, fmt.Errorf("persistent volume %s: malformed response for volume %s: %w", pv.Name, found.ID, err)
	}
	return labels, nil
}
