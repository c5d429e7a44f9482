// Package haproxy carries the traffic of listeners that need a proxy, and probes the members of all pools, with HAProxy.
//
// HAProxy is a process of its own, which outlives the agent. It is recognized by the socket of its master process, and
// what it runs by a description in its configuration. Servers are changed on that socket; everything else by a reload,
// at which the old worker hands its sockets to the new one and goes on with its connections.
//
// Package plan says what HAProxy has to do, and package process runs it. The engines of this package decide what becomes
// of a plan that HAProxy refuses in part, when it may reload, and what is changed without a reload.
package haproxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/user"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/haproxy/plan"
	"quaymaster.dev/internal/mycloud/edge/haproxy/process"
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
	// User is the user that the workers run as. They parse what clients send, and need no privileges; empty means the
	// agent's user.
	User string
	// Certificates has the certificates that listeners name.
	Certificates Certificates
	Clock        clock.Clock
	Logger       *slog.Logger
}

// Engine makes HAProxy do what a configuration says.
type Engine struct {
	Options

	haproxy *process.HAProxy
	// user and group are those of the workers, by their numbers; empty for those of the agent.
	user, group string
	// shown is what HAProxy does, for those that ask while it is being changed; nil before the first Apply.
	shown atomic.Pointer[shown]

	// counted guards counting.
	counted  sync.Mutex
	counting counting

	// mu guards the rest, and is held while HAProxy is changed.
	mu sync.Mutex
	// files is how many files HAProxy may open; 0 before the first Apply.
	files int
	// units are those of the last Apply; nil before it.
	units   []plan.Unit
	pools   []config.Pool
	running plan.Running
	// refusedCertificates has why HAProxy refuses contents of certificates.
	refusedCertificates map[[sha256.Size]byte]error
	// unended has the load balancers with connections that must end; "" stands for any.
	unended map[string]bool
	// leaving has the servers that no pool has any more, and when their connections end at the latest.
	leaving map[place]time.Time
	// left has why HAProxy was reloaded, by the process id of the worker that was left.
	left map[int]reloaded
	// turn is when the first of those that wait for a reload gets it at the latest; zero if nothing waits.
	turn time.Time
}

// shown is what HAProxy does.
type shown struct {
	plan  *plan.Plan
	pools []config.Pool
	// keys are those of all units that are wanted or run.
	keys map[string]bool
}

// New returns an engine. Nothing happens until Apply.
func New(o Options) (*Engine, error) {
	h, err := process.New(process.Options{Dir: o.Dir, Binary: o.Binary, Clock: o.Clock, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	e := &Engine{Options: o, haproxy: h, unended: map[string]bool{}, leaving: map[place]time.Time{}, left: map[int]reloaded{}}
	if o.User != "" {
		found, err := user.Lookup(o.User)
		if err != nil {
			return nil, fmt.Errorf("look up the user of the workers (--haproxy-user): %w", err)
		}
		e.user, e.group = found.Uid, found.Gid
	}
	return e, nil
}

// Apply makes HAProxy do what the configuration says: it serves the listeners of engine Proxy, and probes the members of
// all pools. It starts HAProxy if it does not run. What HAProxy cannot do is returned as faults, and stays as it was; an
// error means that HAProxy does not work at all. Changes that arrive while Apply runs belong into one next call: every
// call reloads HAProxy at most once.
func (e *Engine) Apply(ctx context.Context, c *config.Config) ([]cloudv1.EdgeFault, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.units, e.pools = plan.Units(c), c.Pools
	faults, err := e.apply(ctx)
	if err != nil {
		return nil, fmt.Errorf("apply haproxy's configuration: %w", err)
	}
	return faults, nil
}

// Run keeps HAProxy running until the context ends: it starts one that has crashed, replaces one that does not answer,
// and ends connections whose time is over. HAProxy goes on when Run returns.
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
	p, err := e.haproxy.Supervise(ctx, func(ctx context.Context) error {
		_, err := e.apply(ctx)
		return err
	})
	if err != nil || p == nil || p.Current == 0 || e.running.Units == nil {
		return err
	}
	return e.tend(ctx, p)
}

// Stop ends HAProxy and all its connections.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.units = nil
	return e.haproxy.Stop(ctx)
}

func (e *Engine) apply(ctx context.Context) ([]cloudv1.EdgeFault, error) {
	e.turn = time.Time{}
	if err := os.MkdirAll(e.haproxy.File(certificateDir), 0o700); err != nil {
		return nil, err
	}
	if e.files == 0 {
		e.files = process.OpenFiles()
	}
	p, err := e.haproxy.Running(ctx)
	if err != nil && !errors.Is(err, process.ErrNotRunning) {
		return nil, err
	}
	runs := ""
	if p != nil && p.Current != 0 {
		if runs, err = e.haproxy.Structure(ctx, p.Current); err != nil {
			return nil, err
		}
	}
	if p == nil {
		e.running.Units = nil
	}
	if e.running.Backends == nil && runs != "" {
		if e.running.Backends, err = e.sizes(ctx, p.Current); err != nil {
			return nil, err
		}
	}
	waits := e.waits(p)
	certificates, err := e.install(ctx, p, append(slices.Collect(maps.Values(e.running.Units)), e.units...), waits)
	if err != nil {
		return nil, err
	}
	for id := range e.tooMany() {
		if waits(id) == nil {
			certificates.reload[id] = true
		}
	}
	planned, err := e.adopt(ctx, runs, certificates, waits)
	if err != nil {
		return nil, err
	}
	before := e.running.Units
	e.running = plan.Running{Units: make(map[string]plan.Unit, len(planned.Units)), Backends: planned.Sizes()}
	for _, u := range planned.Units {
		e.running.Units[u.Key()] = u
	}
	e.show(planned)
	e.clean(certificates)
	if p, err = e.haproxy.Running(ctx); err != nil {
		return nil, err
	}
	refused, err := e.reconcile(ctx, p.Current, planned)
	if err != nil {
		return nil, err
	}
	if err := e.haproxy.SetLimits(ctx, p.Current, planned.Limits()); err != nil {
		return nil, err
	}
	unchanged, err := e.open(ctx, p.Current, planned)
	if err != nil {
		return nil, err
	}
	unended := e.expel(ctx, p, before, planned)
	return slices.Concat(planned.Faults, certificates.faults(e.units), refused, unchanged, unended), e.tend(ctx, p)
}

// current returns what HAProxy was last made to do, and statistics of its worker.
func (e *Engine) current(
	ctx context.Context, statistics func(ctx context.Context, worker int) ([]process.Row, error),
) (*shown, []process.Row, error) {
	now := e.shown.Load()
	if now == nil {
		return nil, nil, errNotApplied
	}
	p, err := e.haproxy.Running(ctx)
	if err != nil {
		return nil, nil, err
	}
	rows, err := statistics(ctx, p.Current)
	return now, rows, err
}

// show has those that ask see the plan.
func (e *Engine) show(p *plan.Plan) {
	keys := make(map[string]bool, len(e.units))
	for _, u := range slices.Concat(e.units, p.Units) {
		keys[u.Key()] = true
	}
	e.shown.Store(&shown{p, e.pools, keys})
}

// adopt makes HAProxy run with a plan for the units, and returns it. What HAProxy refuses is left out.
func (e *Engine) adopt(ctx context.Context, runs string, c *installed, waits func(string) error) (*plan.Plan, error) {
	waiting, refused := e.waiting(waits), plan.Refusals{}
	var failed error
	// The wanted form of a unit can be refused, and the accepted one.
	for range 3 {
		planned, r, causes, err := e.shared(ctx, c, runs, waiting, refused)
		if failed = err; err != nil {
			break
		}
		if r.Structure == runs && len(c.reload) == 0 {
			return planned, nil
		}
		p, err := e.haproxy.Running(ctx)
		if errors.Is(err, process.ErrNotRunning) {
			err = e.haproxy.Start(ctx, r)
		} else if err == nil {
			err = e.reload(ctx, p, r)
		}
		if err == nil {
			if p != nil && p.Current != 0 {
				e.left[p.Current] = reloaded{e.Clock.Now(), causes}
			}
			return planned, nil
		}
		failed = err
		if because, ok := errors.AsType[*process.RefusedError](err); !ok || !refused.Refuse(planned, because.Sections) {
			break
		}
	}
	if runs == "" || e.running.Units == nil {
		return nil, failed
	}
	return e.standing(c, failed)
}

// reload makes HAProxy run another configuration. What its workers have counted is read before: they may end.
func (e *Engine) reload(ctx context.Context, before *process.Workers, c *process.Configuration) error {
	if before.Current != 0 {
		e.counted.Lock()
		err := e.count(ctx)
		e.counted.Unlock()
		if err != nil {
			return err
		}
	}
	return e.haproxy.Reload(ctx, before, c)
}

// shared returns the plan without what HAProxy refuses, and the load balancers for whose sake HAProxy reloads. What waits
// for a reload shares it, but is no reason for one: nor is what HAProxy refuses.
func (e *Engine) shared(
	ctx context.Context, c *installed, runs string, waiting map[string]error, refused plan.Refusals,
) (*plan.Plan, *process.Configuration, []string, error) {
	for key, reason := range waiting {
		refused.Add(key, reason)
	}
	p, r, err := e.checked(ctx, c, runs, refused)
	if err != nil || r.Structure == runs && len(c.reload) == 0 {
		return p, r, nil, err
	}
	causes := e.causes(p, c)
	if len(waiting) > 0 {
		refused.Admit()
		p, r, err = e.checked(ctx, c, runs, refused)
	}
	return p, r, causes, err
}

// standing returns the plan of what HAProxy runs, with the members of now, if it cannot do anything else.
func (e *Engine) standing(c *installed, reason error) (*plan.Plan, error) {
	refused := plan.Refusals{}
	for _, u := range e.units {
		if was, ok := e.running.Units[u.Key()]; !ok || u.NeedsReload(was) || c.reload[u.LoadBalancer()] {
			refused.Add(u.Key(), reason)
		}
	}
	planned, _, err := e.plans(c, refused, false)
	return planned, err
}

// checked returns the plan without what HAProxy refuses.
func (e *Engine) checked(
	ctx context.Context, c *installed, runs string, refused plan.Refusals,
) (*plan.Plan, *process.Configuration, error) {
	for first := true; ; first = false {
		p, r, err := e.plans(c, refused, false)
		if err != nil || r.Structure == runs && len(c.reload) == 0 {
			return p, r, err
		}
		if first {
			different, err := e.claim(ctx, runs, refused)
			if err != nil {
				return nil, nil, err
			}
			if different {
				continue
			}
		}
		if slices.ContainsFunc(p.Units, func(u plan.Unit) bool { return u.Removed }) {
			// A reload takes them along.
			if p, r, err = e.plans(c, refused, true); err != nil {
				return nil, nil, err
			}
		}
		sections, err := e.haproxy.Check(ctx, r, runs)
		if err != nil || len(sections) == 0 {
			return p, r, err
		}
		if !refused.Refuse(p, sections) {
			return nil, nil, fmt.Errorf("haproxy refuses a part that belongs to no listener: %v", sections)
		}
	}
}

// mostRemoved is how many listeners that a load balancer no longer has stay in HAProxy's configuration over reloads.
const mostRemoved = 8

// plans returns the plan for the units. Those that are not wanted any more stay in HAProxy's configuration, where they do
// nothing, because removing them takes a reload. With a reload, only some stay: those of load balancers that have other
// listeners, which may want them back, for which they would need a reload for their own sake.
func (e *Engine) plans(c *installed, refused plan.Refusals, reload bool) (*plan.Plan, *process.Configuration, error) {
	units := slices.Clone(e.units)
	wanted, serving, removed := map[string]bool{}, map[string]bool{}, map[string]int{}
	for _, u := range units {
		wanted[u.Key()] = true
		if u.Listener != nil {
			serving[u.LoadBalancer()] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.running.Units)) {
		u := e.running.Units[key]
		if wanted[key] {
			continue
		}
		id := u.LoadBalancer()
		if reload && (u.Listener == nil || !serving[id] || removed[id] == mostRemoved) {
			continue
		}
		removed[id]++
		units = append(units, u.AsRemoved())
	}
	p := plan.Of(units, c.usable, e.running, refused, e.files)
	r, err := e.configuration(p, e.files)
	return p, r, err
}

// configuration returns what HAProxy has to run for a plan, with that many open files.
func (e *Engine) configuration(p *plan.Plan, files int) (*process.Configuration, error) {
	text, structure, err := p.Render(plan.Settings{
		StateFile: e.haproxy.File(process.StateFile), LimitsFile: e.haproxy.File(process.LimitsFile),
		User: e.user, Group: e.group, Files: files,
	})
	if err != nil {
		return nil, err
	}
	return &process.Configuration{Text: text, Structure: structure, Limits: p.Limits()}, nil
}
