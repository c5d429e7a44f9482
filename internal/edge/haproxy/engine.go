// Package haproxy carries the traffic of listeners that need a proxy, and probes the members of all pools, with HAProxy.
//
// HAProxy is a process of its own, which outlives the agent. It is recognized by the socket of its master process, and
// what it runs by a description in its configuration. Servers are changed on that socket; everything else by a reload,
// at which the old worker hands its sockets to the new one and goes on with its connections.
package haproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/edge/config"
)

// Certificates has the certificates of https listeners, as PEM.
type Certificates interface {
	KeyPair(id string) (chain, key []byte, ok bool)
}

// Options says how HAProxy runs.
type Options struct {
	// Dir is an absolute path to a folder for everything that the engine writes. The paths of its sockets must fit into
	// the 108 characters that the kernel allows.
	Dir string
	// Binary is haproxy's path; it defaults to haproxy.
	Binary string
	// User is the user that the workers run as; empty means the agent's user.
	User string
	// Certificates has the certificates that listeners name.
	Certificates Certificates
	Clock        clock.Clock
	Logger       *slog.Logger
}

// Engine makes HAProxy do what a configuration says.
type Engine struct {
	Options

	master master
	// files is how many files HAProxy may open; 0 before the first Apply.
	files int

	mu sync.Mutex
	// child is the process that this engine has started, until it is known to have ended.
	child int
	// pid is the master that has answered last; 0 if none has.
	pid int
	// units are those of the last Apply; nil before it.
	units []unit
	pools []config.Pool
	// plan is what HAProxy runs.
	plan    *plan
	verdict verdict
	// accepted are the units that HAProxy runs, by key.
	accepted map[string]unit
	// leaving has the servers that no pool has any more, and when their connections end at the latest.
	leaving map[place]time.Time

	counting counting
}

// safeDir has the characters that need no quotes anywhere.
var safeDir = regexp.MustCompile(`^/[A-Za-z0-9/._-]{0,80}$`)

// New returns an engine. Nothing happens until Apply.
func New(o Options) (*Engine, error) {
	if !safeDir.MatchString(o.Dir) {
		return nil, fmt.Errorf("folder %q must be absolute, at most 80 characters long and consist of letters, digits, "+
			"dots, hyphens and underscores", o.Dir)
	}
	if o.Binary == "" {
		o.Binary = "haproxy"
	}
	e := &Engine{Options: o, leaving: map[place]time.Time{}}
	e.master = master{socket: e.file(masterSocket)}
	return e, nil
}

// Apply makes HAProxy do what the configuration says: it serves the listeners of engine Proxy, and probes the members of
// all pools. It starts HAProxy if it does not run. Listeners that HAProxy cannot serve are returned as faults; an error
// means that HAProxy goes on with what it did before. Changes that arrive while Apply runs belong into one next call:
// every call reloads HAProxy at most once.
func (e *Engine) Apply(ctx context.Context, c *config.Config) ([]cloudv1.EdgeFault, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.units, e.pools = unitsOf(c), c.Pools
	faults, err := e.apply(ctx)
	if err != nil {
		return nil, fmt.Errorf("apply haproxy's configuration: %w", err)
	}
	return faults, nil
}

// Run keeps HAProxy running until the context ends: it starts one that has crashed, and removes servers whose time to
// drain is over. HAProxy goes on when Run returns.
func (e *Engine) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.Clock.After(time.Second):
		}
		if err := e.supervise(ctx); err != nil && ctx.Err() == nil {
			e.Logger.ErrorContext(ctx, "haproxy cannot be supervised", "error", err)
		}
	}
}

func (e *Engine) supervise(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.units == nil {
		return nil
	}
	p, err := e.running(ctx)
	if errors.Is(err, errNotRunning) {
		_, err = e.apply(ctx)
		return err
	}
	if err != nil || len(e.leaving) == 0 || p.current == 0 {
		return err
	}
	return e.sweep(ctx, p.current)
}

func (e *Engine) apply(ctx context.Context) ([]cloudv1.EdgeFault, error) {
	if err := os.MkdirAll(e.file(certificateDir), 0o700); err != nil {
		return nil, err
	}
	if e.files == 0 {
		e.files = openFiles()
	}
	p, err := e.running(ctx)
	if err != nil && !errors.Is(err, errNotRunning) {
		return nil, err
	}
	runs := ""
	if p != nil && p.current != 0 {
		if runs, err = e.master.structure(ctx, p.current); err != nil {
			return nil, err
		}
	}
	certificates, err := e.install(ctx, p, e.units)
	if err != nil {
		return nil, err
	}
	planned, r, err := e.plans(e.units, certificates)
	if err != nil {
		return nil, err
	}
	if runs != r.structure || certificates.changed {
		if planned, r, err = e.checked(ctx, planned, r, certificates, runs); err != nil {
			return nil, err
		}
	}
	switch {
	case p == nil:
		err = e.start(ctx, r)
	case runs != r.structure || certificates.reload:
		err = e.reload(ctx, p, r)
	}
	if err != nil {
		return nil, err
	}
	e.plan, e.accepted = planned, make(map[string]unit, len(planned.units))
	for _, u := range planned.units {
		e.accepted[u.key()] = u
	}
	if p, err = e.running(ctx); err != nil {
		return nil, err
	}
	e.clean(certificates)
	return slices.Concat(planned.faults, certificates.faults(e.units)), e.reconcile(ctx, p.current)
}
