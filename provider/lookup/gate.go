package lookup

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
)

// gate limits the number of concurrent reads, and blocks all reads for a moment after the cloud did not respond.
type gate struct {
	timeout time.Duration
	rest    time.Duration
	clock   clock.PassiveClock
	turns   chan struct{}

	mu sync.Mutex
	// outage is the error that blocks reads until the time in until; nil if the cloud responded to the last read.
	outage error
	until  time.Time
}

func newGate(o Options) *gate {
	return &gate{timeout: o.Timeout, rest: o.FailureTTL, clock: o.Clock, turns: make(chan struct{}, o.MaxConcurrent)}
}

// pass calls read when it is its turn.
func (g *gate) pass(ctx context.Context, read func(context.Context) error) error {
	if err := g.closed(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	select {
	case g.turns <- struct{}{}:
		defer func() { <-g.turns }()
	case <-ctx.Done():
		return fmt.Errorf("wait for other reads of the cloud: %w", ctx.Err())
	}
	// An earlier read may have failed in the meantime.
	if err := g.closed(); err != nil {
		return err
	}
	err := read(ctx)
	g.note(err)
	return err
}

func (g *gate) closed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.outage == nil || !g.clock.Now().Before(g.until) {
		return nil
	}
	return fmt.Errorf("the cloud did not respond a moment ago: %w", g.outage)
}

func (g *gate) note(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !unanswered(err) {
		g.outage = nil
		return
	}
	g.outage, g.until = err, g.clock.Now().Add(g.rest)
}

// unanswered reports whether an error concerns the cloud as a whole rather than the object of the read.
func unanswered(err error) bool {
	if refused, ok := errors.AsType[*cloudapi.Error](err); ok {
		return refused.Problem == nil || cloudapi.HasCode(err, cloudv1.CodeUnavailable, cloudv1.CodeRateLimited)
	}
	_, transport := errors.AsType[*url.Error](err)
	return transport || errors.Is(err, context.DeadlineExceeded)
}
