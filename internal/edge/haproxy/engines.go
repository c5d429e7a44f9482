package haproxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/edge/config"
)

// Engines are two HAProxys: one serves listeners and probes the members of their pools, the other only probes members of
// the kernel. Changes of what is only probed are reloads as well, but of a process without connections, so that they leave
// no worker and wait for none.
type Engines struct{ serving, probing *Engine }

// NewEngines returns engines with folders of their own in that of the options.
func NewEngines(o Options) (*Engines, error) {
	in := func(folder string) (*Engine, error) {
		o := o
		o.Dir = filepath.Join(o.Dir, folder)
		return New(o)
	}
	serving, err1 := in("haproxy")
	probing, err2 := in("probes")
	return &Engines{serving, probing}, errors.Join(err1, err2)
}

// split returns what serves and what only probes.
func split(c *config.Config) (serving, probing *config.Config) {
	serving, probing = &config.Config{}, &config.Config{}
	served := map[config.PoolID]bool{}
	for _, l := range c.Listeners {
		if l.Engine == config.Proxy {
			served[l.Pool] = true
			serving.Listeners = append(serving.Listeners, l)
		}
	}
	for _, p := range c.Pools {
		if served[p.ID] {
			serving.Pools = append(serving.Pools, p)
		} else {
			probing.Pools = append(probing.Pools, p)
		}
	}
	return serving, probing
}

// Apply makes both do what the configuration says. If probing does not work at all, that is a fault of the edge, because
// the kernel goes on without it.
func (e *Engines) Apply(ctx context.Context, c *config.Config) ([]cloudv1.EdgeFault, error) {
	serving, probing := split(c)
	faults, err := e.serving.Apply(ctx, serving)
	unprobed, probeErr := e.probing.Apply(ctx, probing)
	if err != nil {
		return nil, err
	}
	if probeErr != nil {
		unprobed = []cloudv1.EdgeFault{{Detail: fmt.Sprintf("probe members: %v", probeErr)}}
	}
	return slices.Concat(faults, unprobed), nil
}

// Run keeps both running until the context ends.
func (e *Engines) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { e.serving.Run(ctx) })
	e.probing.Run(ctx)
	running.Wait()
}

// Turn returns when the first of the changes that wait is made; zero if nothing waits. Nothing that is only probed does.
func (e *Engines) Turn() time.Time { return e.serving.Turn() }

// Health returns the states of the members of all pools.
func (e *Engines) Health(ctx context.Context) ([]cloudv1.MemberHealth, error) {
	served, err1 := e.serving.Health(ctx)
	probed, err2 := e.probing.Health(ctx)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return slices.Concat(served, probed), nil
}

// Serves returns the addresses and ports on which connections are accepted now.
func (e *Engines) Serves(ctx context.Context) ([]netip.AddrPort, error) { return e.serving.Serves(ctx) }

// Counters returns what the listeners have counted.
func (e *Engines) Counters(ctx context.Context) ([]cloudv1.ListenerCounter, error) {
	return e.serving.Counters(ctx)
}
