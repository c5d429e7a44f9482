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
	"quaymaster.dev/internal/mycloud/edge/config"
)

// Engines are two HAProxys: one serves listeners and probes the members of their pools, the other only probes the members
// that the kernel uses. Changes of what is only probed are reloads as well, but of a process without connections, so that they leave
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
	served, forwarded := map[config.PoolID]bool{}, map[config.PoolID]bool{}
	for _, l := range c.Listeners {
		if l.Engine == config.Proxy {
			served[l.Pool] = true
			serving.Listeners = append(serving.Listeners, l)
		} else {
			forwarded[l.Pool] = true
		}
	}
	for _, p := range c.Pools {
		if served[p.ID] {
			serving.Pools = append(serving.Pools, p)
		}
		if forwarded[p.ID] || !served[p.ID] {
			probing.Pools = append(probing.Pools, p)
		}
	}
	return serving, probing
}

// Apply makes both do what the configuration says, at the same time. If probing does not work at all, that is a fault of the
// edge, because the kernel goes on without it.
func (e *Engines) Apply(ctx context.Context, c *config.Config) ([]cloudv1.EdgeFault, error) {
	serving, probing := split(c)
	var running sync.WaitGroup
	var unprobed []cloudv1.EdgeFault
	var probeErr error
	running.Go(func() { unprobed, probeErr = e.probing.Apply(ctx, probing) })
	faults, err := e.serving.Apply(ctx, serving)
	running.Wait()
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

// Health returns the states of the members of all pools; with an error, of those that one of both knows. Members that both
// probe are as the one without connections sees them, because the kernel uses them whatever becomes of the proxy's
// listeners.
func (e *Engines) Health(ctx context.Context) ([]cloudv1.MemberHealth, error) {
	probed, err1 := e.probing.Health(ctx)
	served, err2 := e.serving.Health(ctx)
	poolOf := func(h cloudv1.MemberHealth) config.PoolID {
		return config.PoolID{LoadBalancer: h.LoadBalancerID, Key: h.PoolKey, Family: h.Family}
	}
	twice := map[config.PoolID]bool{}
	for _, h := range probed {
		twice[poolOf(h)] = true
	}
	served = slices.DeleteFunc(served, func(h cloudv1.MemberHealth) bool { return twice[poolOf(h)] })
	return append(probed, served...), errors.Join(err1, err2)
}

// Serves returns the addresses and ports on which connections are accepted now.
func (e *Engines) Serves(ctx context.Context) ([]netip.AddrPort, error) { return e.serving.Serves(ctx) }

// Counters returns what the listeners have counted.
func (e *Engines) Counters(ctx context.Context) ([]cloudv1.ListenerCounter, error) {
	return e.serving.Counters(ctx)
}
