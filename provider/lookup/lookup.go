package lookup

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
)

// What Options default to.
const (
	defaultTimeout       = 2 * time.Second
	defaultMaxConcurrent = 16
	defaultMaxEntries    = 4096
	defaultTTL           = time.Minute
	defaultNotFoundTTL   = 2 * time.Second
	defaultFailureTTL    = time.Second
)

// allTypes is the one key of the list of volume types.
const allTypes = "all"

// ErrUnknownType says that the cloud has no volume type of that name.
var ErrUnknownType = errors.New("the cloud has no such volume type")

// Cloud is what a Lookup needs of the cloud's client.
type Cloud interface {
	Volume(ctx context.Context, id string, o cloudapi.ReadOptions) (*cloudv1.Volume, error)
	VolumeTypes(ctx context.Context, o cloudapi.ListOptions) (*cloudv1.List[cloudv1.VolumeType], error)
}

// Options are what a Lookup depends on. All but Cloud have defaults.
type Options struct {
	// Cloud is the client of the cloud's API.
	Cloud Cloud
	// Timeout bounds one read, the wait for its turn included: 2 s. Whoever asks may leave earlier.
	Timeout time.Duration
	// MaxConcurrent is how many reads there are at the same time: 16.
	MaxConcurrent int
	// MaxEntries is how many volumes are remembered: 4096.
	MaxEntries int
	// TTL is how long a volume and the list of types are remembered: a minute.
	TTL time.Duration
	// NotFoundTTL is how long it is remembered that there is no such volume: 2 s, because it may be about to be made.
	NotFoundTTL time.Duration
	// FailureTTL is how long a failure is remembered: 1 s, so that not everyone in a burst waits for a cloud that is gone.
	FailureTTL time.Duration
	// OnLookup, if set, is told what came of every question.
	OnLookup func(Kind, Result)
	// Clock tells what is too old; nil is the real one.
	Clock clock.PassiveClock
}

// Kind is what is asked about, as metrics name it.
type Kind string

// The kinds of questions.
const (
	KindVolume      Kind = "volume"
	KindVolumeTypes Kind = "volume-types"
)

// Result is what came of a question, as metrics name it.
type Result string

// The results of questions. That there is no such volume is an answer, too.
const (
	// ResultHit is an answer that was remembered.
	ResultHit Result = "hit"
	// ResultMiss is an answer for which the cloud was asked.
	ResultMiss Result = "miss"
	// ResultUnavailable is no answer.
	ResultUnavailable Result = "unavailable"
)

func (o *Options) complete() {
	orDefault(&o.Timeout, defaultTimeout)
	orDefault(&o.MaxConcurrent, defaultMaxConcurrent)
	orDefault(&o.MaxEntries, defaultMaxEntries)
	orDefault(&o.TTL, defaultTTL)
	orDefault(&o.NotFoundTTL, defaultNotFoundTTL)
	orDefault(&o.FailureTTL, defaultFailureTTL)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.OnLookup == nil {
		o.OnLookup = func(Kind, Result) {}
	}
}

func orDefault[T int | time.Duration](value *T, otherwise T) {
	if *value == 0 {
		*value = otherwise
	}
}

// Lookup reads volumes and volume types. It is safe for concurrent use.
type Lookup struct {
	cloud   Cloud
	volumes *memory[*cloudv1.Volume]
	types   *memory[map[string]cloudv1.VolumeType]
}

var _ cloudprovider.PVLabeler = (*Lookup)(nil)

// New makes a Lookup; it does no I/O.
func New(o Options) *Lookup {
	o.complete()
	g := newGate(o)
	return &Lookup{
		cloud:   o.Cloud,
		volumes: newMemory[*cloudv1.Volume](g, KindVolume, o.MaxEntries, o),
		types:   newMemory[map[string]cloudv1.VolumeType](g, KindVolumeTypes, 1, o),
	}
}

// GetLabelsForVolume are the topology labels of a volume of this cloud; those of other volumes are nil. Errors are as those of
// Volume.
func (l *Lookup) GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	return labels(ctx, pv, l.Volume)
}

// Volume reads a volume, or remembers it. The error wraps cloudprovider.DiskNotFound if the cloud says that there is none; any
// other says nothing about the volume. The answer is shared and must not be changed.
func (l *Lookup) Volume(ctx context.Context, id string) (*cloudv1.Volume, error) {
	return l.volumes.get(ctx, id, l.readVolume(id))
}

// FreshVolume is Volume for what may change at any moment, such as whether it is attached: nothing is remembered.
func (l *Lookup) FreshVolume(ctx context.Context, id string) (*cloudv1.Volume, error) {
	return l.volumes.fresh(ctx, id, l.readVolume(id))
}

func (l *Lookup) readVolume(id string) func(context.Context) (*cloudv1.Volume, error) {
	return func(ctx context.Context) (*cloudv1.Volume, error) { return readVolume(ctx, l.cloud, id) }
}

// VolumeType is the volume type of that name. The error wraps ErrUnknownType if the cloud has none; any other says nothing about
// the type.
func (l *Lookup) VolumeType(ctx context.Context, name string) (*cloudv1.VolumeType, error) {
	types, err := l.types.get(ctx, allTypes, l.readTypes)
	if err != nil {
		return nil, err
	}
	volumeType, ok := types[name]
	if !ok {
		return nil, fmt.Errorf("volume type %q: %w", name, ErrUnknownType)
	}
	return &volumeType, nil
}

func (l *Lookup) readTypes(ctx context.Context) (map[string]cloudv1.VolumeType, error) {
	list, err := l.cloud.VolumeTypes(ctx, cloudapi.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list volume types: %w", err)
	}
	if len(list.Items) == 0 {
		// A cloud that has volumes has types of them.
		return nil, errors.New("list volume types: malformed answer: there are none")
	}
	types := make(map[string]cloudv1.VolumeType, len(list.Items))
	for _, t := range list.Items {
		types[t.Name] = t
	}
	return types, nil
}
