// Package cloudstate asks the cloud whether it knows all its load balancers, once for all Services that ask at a time.
package cloudstate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// ErrDegraded is the error of a cloud that may lack load balancers.
var ErrDegraded = errors.New("the cloud is degraded and may not know all its load balancers")

// lasting is how long an answer counts for all Services.
const lasting = 5 * time.Second

// Cloud is the part of the cloud's API that a Checker needs.
type Cloud interface {
	Meta(ctx context.Context) (*cloudv1.Meta, error)
}

// Checker remembers the last answer.
type Checker struct {
	Cloud Cloud
	Clock clock.PassiveClock

	flight singleflight.Group
	last   atomic.Pointer[answer]
}

type answer struct {
	at  time.Time
	err error
}

// Check returns nil if the cloud knows all its load balancers.
func (c *Checker) Check(ctx context.Context) error {
	if a := c.last.Load(); a != nil && c.Clock.Since(a.at) < lasting {
		return a.err
	}
	_, err, _ := c.flight.Do("", func() (any, error) {
		// The answer is for all Services, whichever of them asks first.
		meta, err := c.Cloud.Meta(cloudapi.WithFlow(ctx, ""))
		if err != nil {
			return nil, fmt.Errorf("read the state of the cloud: %w", err)
		}
		if meta.Status != cloudv1.StatusOK {
			err = ErrDegraded
		}
		c.last.Store(&answer{c.Clock.Now(), err})
		return nil, err
	})
	return err
}
