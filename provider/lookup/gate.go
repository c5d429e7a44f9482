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

// gate lets a few reads at a time through to the cloud, and none for a moment after the cloud gave no answer.
type gate struct {
	timeout time.Duration
	rest    time.Duration
	clock   clock.PassiveClock
	turns   chan struct{}

	mu sync.Mutex
	// outage is why nobody passes until then; nil if the last read was answered.
	outage error
	until  time.Time
}

func newGate(o Options) *gate {
	return &gate{timeout: o.Timeout, rest: o.FailureTTL, clock: o.Clock, turns: make(chan struct{}, o.MaxConcurrent)}
}

// pass reads when it is its turn.
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
	// Those whose turn it was before may have found that the cloud gives no answer.
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
	return fmt.Errorf("the cloud gave no answer a moment ago: %w", g.outage)
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

// unanswered tells whether an error is about the cloud as a whole, and not about what was read.
func unanswered(err error) bool {
	if refused, ok := errors.AsType[*cloudapi.Error](err); ok {
		return refused.Problem == nil || cloudapi.HasCode(err, cloudv1.CodeUnavailable, cloudv1.CodeRateLimited)
	}
	_, transport := errors.AsType[*url.Error](err)
	return transport || errors.Is(err, context.DeadlineExceeded)
}
