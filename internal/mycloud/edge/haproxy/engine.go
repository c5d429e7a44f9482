// Package haproxy carries the traffic of listeners that need a proxy, and probes the members of all pools, with HAProxy.
//
// HAProxy is a process of its own, which outlives the agent. It is recognized by the socket of its master process, and
// what it runs by a description in its configuration. Servers are changed on that socket; everything else by a reload,
// at which the old worker hands its sockets to the new one and goes on with its connections.
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
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
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

	master master
	// account is that of the workers.
	account account
	// shown is what HAProxy does, for those that ask while it is being changed; nil before the first Apply.
	shown atomic.Pointer[shown]

	// process guards what is known about the master process.
	process sync.Mutex
	// child is the process that this engine has started, until it is known to have ended.
	child int
	// pid is the master that has answered last; 0 if none has.
	pid int

	// counted guards counting.
	counted  sync.Mutex
	counting counting

	// mu guards the rest, and is held while HAProxy is changed.
	mu sync.Mutex
	// files is how many files HAProxy may open; 0 before the first Apply.
	files int
	// units are those of the last Apply; nil before it.
	units []unit
	pools []config.Pool
	// accepted are the units that HAProxy runs, by key; nil if they are not known.
	accepted map[string]unit
	// refusedCertificates has why HAProxy refuses contents of certificates.
	refusedCertificates map[[sha256.Size]byte]error
	// leaving has the servers that no pool has any more, and when their connections end at the latest.
	leaving map[place]time.Time
	// left has why HAProxy was reloaded, by the process id of the worker that was left.
	left map[int]reloaded
	// turn is when the first of those that wait for a reload gets it at the latest; zero if nothing waits.
	turn time.Time
	// silent is since when HAProxy has not answered; zero if it has.
	silent time.Time
	// hung are master processes that were replaced, and since when.
	hung map[int]time.Time
}

// shown is what HAProxy does.
type shown struct {
	plan  *plan
	pools []config.Pool
	// keys are those of all units that are wanted or run.
	keys map[string]bool
}

// account is a user and its group, by their numbers; empty for those of the agent.
type account struct{ ID, Group string }

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
	e := &Engine{Options: o, leaving: map[place]time.Time{}, left: map[int]reloaded{}, hung: map[int]time.Time{}}
	if o.User != "" {
		found, err := user.Lookup(o.User)
		if err != nil {
			return nil, fmt.Errorf("look up the user of the workers (--haproxy-user): %w", err)
		}
		e.account = account{found.Uid, found.Gid}
	}
	e.master = master{socket: e.file(masterSocket)}
	return e, nil
}

// Apply makes HAProxy do what the configuration says: it serves the listeners of engine Proxy, and probes the members of
// all pools. It starts HAProxy if it does not run. What HAProxy cannot do is returned as faults, and stays as it was; an
// error means that HAProxy does not work at all. Changes that arrive while Apply runs belong into one next call: every
// call reloads HAProxy at most once.
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
	e.bury()
	p, err := e.running(ctx)
	if err == nil && p.current != 0 {
		_, err = e.master.structure(ctx, p.current)
	}
	switch {
	case errors.Is(err, errNotRunning):
		_, err = e.apply(ctx)
		return err
	case err != nil:
		return errors.Join(err, e.unanswered(ctx))
	}
	e.silent = time.Time{}
	if p.current == 0 || e.accepted == nil {
		return nil
	}
	return e.tend(ctx, p)
}

func (e *Engine) apply(ctx context.Context) ([]cloudv1.EdgeFault, error) {
	e.turn = time.Time{}
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
	if p == nil {
		e.accepted = nil
	}
	waits := e.waits(p)
	certificates, err := e.install(ctx, p, append(slices.Collect(maps.Values(e.accepted)), e.units...), waits)
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
	before := e.accepted
	e.accepted = make(map[string]unit, len(planned.units))
	for _, u := range planned.units {
		e.accepted[u.key()] = u
	}
	e.show(planned)
	e.clean(certificates)
	if p, err = e.running(ctx); err != nil {
		return nil, err
	}
	refused, err := e.reconcile(ctx, p.current, planned)
	if err != nil {
		return nil, err
	}
	if err := e.limit(ctx, p.current, planned); err != nil {
		return nil, err
	}
	unchanged, err := e.open(ctx, p.current, planned)
	if err != nil {
		return nil, err
	}
	if err := e.expel(ctx, p, before, planned); err != nil {
		return nil, err
	}
	return slices.Concat(planned.faults, certificates.faults(e.units), refused, unchanged), e.tend(ctx, p)
}

// show has those that ask see the plan.
func (e *Engine) show(p *plan) {
	keys := make(map[string]bool, len(e.units))
	for _, u := range slices.Concat(e.units, p.units) {
		keys[u.key()] = true
	}
	e.shown.Store(&shown{p, e.pools, keys})
}

// adopt makes HAProxy run with a plan for the units, and returns it. What HAProxy refuses is left out.
func (e *Engine) adopt(ctx context.Context, runs string, c *installed, waits func(string) error) (*plan, error) {
	waiting, refused := e.waiting(waits), refusals{}
	var failed error
	// The wanted form of a unit can be refused, and the accepted one.
	for range 3 {
		planned, r, causes, err := e.shared(ctx, c, runs, waiting, refused)
		if failed = err; err != nil {
			break
		}
		if r.structure == runs && len(c.reload) == 0 {
			return planned, nil
		}
		p, err := e.running(ctx)
		if errors.Is(err, errNotRunning) {
			err = e.start(ctx, r)
		} else if err == nil {
			err = e.reload(ctx, p, r)
		}
		if err == nil {
			if p != nil && p.current != 0 {
				e.left[p.current] = reloaded{e.Clock.Now(), causes}
			}
			return planned, nil
		}
		failed = err
		if because, ok := errors.AsType[*refusedError](err); !ok || !refused.refuse(planned, because.sections) {
			break
		}
	}
	if runs == "" || e.accepted == nil {
		return nil, failed
	}
	return e.standing(c, failed)
}

// shared returns the plan without what HAProxy refuses, and the load balancers for whose sake HAProxy reloads. What waits
// for a reload shares it, but is no reason for one: nor is what HAProxy refuses.
func (e *Engine) shared(
	ctx context.Context, c *installed, runs string, waiting, refused refusals,
) (*plan, *rendered, []string, error) {
	for key, w := range waiting {
		if refused[key] == nil {
			refused[key] = &refusal{1, w.reason}
		}
	}
	p, r, err := e.checked(ctx, c, runs, refused)
	if err != nil || r.structure == runs && len(c.reload) == 0 {
		return p, r, nil, err
	}
	causes := e.causes(p, c)
	if len(waiting) > 0 {
		maps.DeleteFunc(refused, func(_ string, r *refusal) bool { return isWaiting(r.reason) })
		p, r, err = e.checked(ctx, c, runs, refused)
	}
	return p, r, causes, err
}

// standing returns the plan of what HAProxy runs, with the members of now, if it cannot do anything else.
func (e *Engine) standing(c *installed, reason error) (*plan, error) {
	refused := refusals{}
	for _, u := range e.units {
		if was, ok := e.accepted[u.key()]; !ok || u.needsReload(was) || c.reload[u.loadBalancer()] {
			refused[u.key()] = &refusal{1, reason}
		}
	}
	planned, _, err := e.plans(c, refused, false)
	return planned, err
}

// checked returns the plan without what HAProxy refuses.
func (e *Engine) checked(
	ctx context.Context, c *installed, runs string, refused refusals,
) (*plan, *rendered, error) {
	for first := true; ; first = false {
		p, r, err := e.plans(c, refused, false)
		if err != nil || r.structure == runs && len(c.reload) == 0 {
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
		if slices.ContainsFunc(p.units, func(u unit) bool { return u.removed }) {
			// A reload takes them along.
			if p, r, err = e.plans(c, refused, true); err != nil {
				return nil, nil, err
			}
		}
		sections, err := e.check(ctx, r)
		if err != nil || len(sections) == 0 {
			return p, r, err
		}
		if !refused.refuse(p, sections) {
			return nil, nil, fmt.Errorf("haproxy refuses a part that belongs to no listener: %v", sections)
		}
	}
}

// mostRemoved is how many listeners that a load balancer no longer has stay in HAProxy's configuration over reloads.
const mostRemoved = 8

// plans returns the plan for the units. Those that are not wanted any more stay in HAProxy's configuration, where they do
// nothing, because removing them takes a reload. With a reload, only some stay: those of load balancers that have other
// listeners, which may want them back, for which they would need a reload for their own sake.
func (e *Engine) plans(c *installed, refused refusals, reload bool) (*plan, *rendered, error) {
	units := slices.Clone(e.units)
	wanted, serving, removed := map[string]bool{}, map[string]bool{}, map[string]int{}
	for _, u := range units {
		wanted[u.key()] = true
		if u.listener != nil {
			serving[u.loadBalancer()] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.accepted)) {
		u := e.accepted[key]
		if wanted[key] {
			continue
		}
		id := u.loadBalancer()
		if reload && (u.listener == nil || !serving[id] || removed[id] == mostRemoved) {
			continue
		}
		removed[id]++
		units = append(units, u.asRemoved())
	}
	p := planOf(units, c.usable, e.accepted, refused, (e.files-spareFiles)/filesPerCheck)
	r, err := render(p, e.Dir, e.account, connectionsFor(e.files, p))
	return p, r, err
}
