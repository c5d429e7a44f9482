package lookup

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

var errTooMany = errors.New("too many reads of the cloud at the moment")

// gate limits the number and rate of reads. After the cloud did not respond, it blocks all reads for a moment, and then
// lets a single one find out whether the cloud responds again.
type gate struct {
	clock  clock.PassiveClock
	turns  chan struct{}
	budget *rate.Limiter

	mu sync.Mutex
	// outage is the error that blocks reads until the time in until; nil if the cloud responded to the last read.
	outage error
	until  time.Time
	// probing is true while a single read finds out whether the cloud responds again.
	probing bool
}

func newGate(o Options) *gate {
	return &gate{
		clock: o.Clock, turns: make(chan struct{}, maxConcurrent), budget: rate.NewLimiter(readsPerSecond, readsAtOnce),
	}
}

// pass calls read when it is its turn.
func (g *gate) pass(ctx context.Context, read func(context.Context) error) (err error) {
	if err := g.closed(); err != nil {
		return err
	}
	// Requests that waited for the budget would keep those away that need no read.
	if !g.budget.Allow() {
		return errTooMany
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case g.turns <- struct{}{}:
		defer func() { <-g.turns }()
	case <-ctx.Done():
		return fmt.Errorf("wait for other reads of the cloud: %w", ctx.Err())
	}
	// An earlier read may have failed in the meantime.
	if err := g.enter(); err != nil {
		return err
	}
	// Deferred, so that a panic does not block all later reads.
	defer func() { g.note(err) }()
	return read(ctx)
}

func (g *gate) closed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.blocked()
}

// blocked is closed for callers that hold the lock.
func (g *gate) blocked() error {
	if g.outage == nil || !g.probing && !g.clock.Now().Before(g.until) {
		return nil
	}
	return fmt.Errorf("the cloud did not respond a moment ago: %w", g.outage)
}

// enter is like closed, but makes a read that follows an outage the only one.
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.blocked(); err != nil {
		return err
	}
	g.probing = g.outage != nil
	return nil
}

func (g *gate) note(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing = false
	if !unanswered(err) {
		g.outage = nil
		return
	}
	g.outage, g.until = err, g.clock.Now().Add(failureTTL)
}

// unanswered reports whether an error concerns the cloud as a whole rather than the object of the read.
func unanswered(err error) bool {
	if refused, ok := errors.AsType[*cloudapi.Error](err); ok {
		return refused.Problem == nil || cloudapi.HasCode(err, cloudv1.CodeUnavailable, cloudv1.CodeRateLimited)
	}
	_, transport := errors.AsType[*url.Error](err)
	return transport || errors.Is(err, context.DeadlineExceeded)
}
