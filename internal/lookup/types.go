package lookup

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// types holds the cloud's volume types. They are few and rarely change, so run reads them all in the background, and
// no request waits for them.
type types struct {
	gate    *gate
	cloud   Cloud
	observe func(Result)
	clock   clock.Clock
	latest  atomic.Pointer[typeList]
}

// typeList is the list of volume types at a time.
type typeList struct {
	read   time.Time
	byName map[string]cloudv1.VolumeType
}

// get returns a volume type. A list that could not be read again is used for a while: types hardly change.
func (t *types) get(name string) (*cloudv1.VolumeType, error) {
	latest := t.latest.Load()
	if latest == nil || t.clock.Since(latest.read) > maxTypesAge {
		t.observe(ResultUnavailable)
		if latest == nil {
			return nil, errors.New("the volume types of the cloud have not been read yet")
		}
		return nil, fmt.Errorf("the volume types of the cloud were last read at %s", latest.read.Format(time.RFC3339))
	}
	t.observe(ResultHit)
	found, ok := latest.byName[name]
	if !ok {
		return nil, fmt.Errorf("volume type %q: %w", name, ErrUnknownType)
	}
	return &found, nil
}

// run reads the list until the context ends: once per ttl, and more often while the cloud does not answer.
func (t *types) run(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		err := t.refresh(ctx)
		next := ttl
		if err != nil {
			next = typesRetry
			if !failing {
				klog.FromContext(ctx).Error(err, "Cannot read the volume types of the cloud", "retryInterval", next)
			}
		}
		failing = err != nil
		select {
		case <-ctx.Done():
		case <-t.clock.After(next):
		}
	}
}

// refresh does not wait for its turn at the gate, because requests must not be able to delay it.
func (t *types) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	byName, err := readTypes(ctx, t.cloud)
	t.gate.note(err)
	if err != nil {
		t.observe(ResultUnavailable)
		return err
	}
	t.observe(ResultMiss)
	t.latest.Store(&typeList{read: t.clock.Now(), byName: byName})
	return nil
}

func readTypes(ctx context.Context, cloud Cloud) (map[string]cloudv1.VolumeType, error) {
	list, err := cloud.VolumeTypes(ctx, cloudapi.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list volume types: %w", err)
	}
	if len(list.Items) == 0 {
		// A cloud that has volumes has volume types.
		return nil, errors.New("list volume types: malformed response: the list is empty")
	}
	types := make(map[string]cloudv1.VolumeType, len(list.Items))
	for _, t := range list.Items {
		types[t.Name] = t
	}
	return types, nil
}
