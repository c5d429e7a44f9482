package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/edge/agent"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/test/harness/cloud"
)

// machine records what the agent has its engines do, in order. The engines themselves are tested with real packets.
type machine struct {
	mu     sync.Mutex
	steps  []string
	err    error
	health []cloudv1.MemberHealth
	// probeErr is the error of reading health.
	probeErr error
	// healthy has the members that the kernel received as healthy, and used all that it ever did.
	healthy []string
	used    map[string]bool
	due     bool
	// announceErr and kernelErr are errors, missing the addresses that cannot be added.
	announceErr, kernelErr error
	// proxied and forwarded are what the engines serve, and servesErr is the error of asking the proxy.
	proxied, forwarded []netip.AddrPort
	servesErr          error
	// refuse is true if the proxy serves nothing that it is asked for, announced is what was announced last.
	refuse    bool
	announced []netip.Addr
	// turn is until when the proxy has changes wait; zero if it does not.
	turn time.Time
	// hang makes announcements wait until it is closed.
	hang chan struct{}
	// counted is what the kernel has counted for the listener that the proxy counts, too.
	counted uint64
	missing map[netip.Addr]error
	// settle is how long traffic arrives after a withdrawal, answered are the addresses of the machine.
	settle   time.Duration
	answered []netip.Addr
	// logged counts the messages of the log.
	logged map[string]int
}

func (m *machine) note(format string, args ...any) {
	m.steps = append(m.steps, fmt.Sprintf(format, args...))
}

// taken returns the steps since the last call.
func (m *machine) taken() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	steps := m.steps
	m.steps = nil
	return steps
}

func (m *machine) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

type proxy struct{ *machine }

func (p proxy) Apply(_ context.Context, c *config.Config) ([]cloudv1.EdgeFault, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note("proxy %d", len(c.Listeners))
	if time.Now().Before(p.turn) {
		return []cloudv1.EdgeFault{{Detail: "waits", Pending: true}}, nil
	}
	p.turn = time.Time{}
	if p.err == nil && !p.refuse {
		p.proxied = served(c, func(e config.Engine) bool { return e == config.Proxy })
	}
	return nil, p.err
}

// served returns the addresses and ports of the listeners of an engine.
func served(c *config.Config, uses func(config.Engine) bool) []netip.AddrPort {
	var list []netip.AddrPort
	for _, l := range c.Listeners {
		if uses(l.Engine) {
			list = append(list, netip.AddrPortFrom(l.Address, l.Port))
		}
	}
	return list
}

func (p proxy) Turn() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turn
}

func (p proxy) Serves(context.Context) ([]netip.AddrPort, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proxied, p.servesErr
}

func (p proxy) Health(context.Context) ([]cloudv1.MemberHealth, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.health), p.probeErr
}

func (p proxy) Counters(context.Context) ([]cloudv1.ListenerCounter, error) {
	return []cloudv1.ListenerCounter{{LoadBalancerID: "lb-x", ListenerKey: "tcp/80", Family: "ipv4", Accepted: 7}}, nil
}

type kernel struct{ *machine }

func (k kernel) Apply(
	_ context.Context, c *config.Config, healthy func(config.PoolID, string) bool,
) ([]cloudv1.EdgeFault, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.healthy = nil
	for _, p := range c.Pools {
		for _, m := range p.Members {
			if healthy(p.ID, m.Key) {
				k.healthy = append(k.healthy, m.Key)
				k.used[m.Key] = true
			}
		}
	}
	k.note("kernel %d", len(c.Listeners))
	if k.kernelErr == nil {
		k.forwarded = served(c, func(e config.Engine) bool { return e != config.Proxy })
	}
	return nil, k.kernelErr
}

func (k kernel) Serves() []netip.AddrPort {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.forwarded
}

func (k kernel) Due() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.due
}

func (k kernel) Counters(context.Context) ([]cloudv1.ListenerCounter, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.counted == 0 {
		return nil, nil
	}
	return []cloudv1.ListenerCounter{{LoadBalancerID: "lb-x", ListenerKey: "tcp/80", Family: "ipv4", Accepted: k.counted}}, nil
}

func (kernel) Overflows() []config.Overflow {
	return []config.Overflow{{LoadBalancer: "lb-x", Family: "ipv4", Connections: 3, Packets: 4}}
}

type addresses struct{ *machine }

func (a addresses) Apply(_ context.Context, list []netip.Addr) (map[netip.Addr]error, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note("addresses %d", len(list))
	a.answered = list
	return a.missing, nil
}

type announcer struct{ *machine }

func (a announcer) Announce(ctx context.Context, list []netip.Addr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if hang := a.hang; hang != nil {
		a.mu.Unlock()
		select {
		case <-hang:
		case <-ctx.Done():
		}
		a.mu.Lock()
	}
	a.note("announce %d", len(list))
	if a.announceErr == nil {
		a.announced = list
	}
	return a.announceErr
}

func (a announcer) Settle() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(a.settle, 10*time.Millisecond)
}

// logs counts messages.
type logs struct {
	slog.Handler
	*machine
}

func (l logs) Enabled(context.Context, slog.Level) bool { return true }

func (l logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logged[r.Message]++
	return nil
}

// world is a cloud with a load balancer, and an edge.
type world struct {
	*testing.T
	cloud   *cloud.Cloud
	machine *machine
	agent   *agent.Agent
	// registry has the metrics of the agent.
	registry *prometheus.Registry
	dir      string
	stop     func()
	// identity is that of the cloud, and withdrawAfter the option of agents that are started.
	identity      *agent.Identity
	withdrawAfter time.Duration
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, cloud: cloud.Start(t, 0), machine: &machine{used: map[string]bool{}, logged: map[string]int{}}, dir: t.TempDir()}
	w.start()
	return w
}

// start starts an agent until the test ends or stop is called.
func (w *world) start() {
	w.Helper()
	w.startAs(w.cloud.EdgeClient(w.T), cloudv1.EdgeSpec{Name: "edge-1"})
}

// startAs is start for an edge with other tokens.
func (w *world) startAs(c agent.Cloud, spec cloudv1.EdgeSpec) {
	w.Helper()
	w.registry = prometheus.NewRegistry()
	metrics, err := agent.NewMetrics(w.registry)
	if err != nil {
		w.Fatal(err)
	}
	if w.identity == nil {
		w.identity = agent.NewIdentity("")
	}
	a := agent.New(agent.Options{
		Cloud: c, Identity: w.identity, Edge: spec, Compile: config.Options{Name: spec.Name},
		StateFile: filepath.Join(w.dir, "state.json"), WithdrawAfter: w.withdrawAfter, Proxy: proxy{w.machine}, Certificates: &agent.Certificates{},
		Kernel: kernel{w.machine}, Addresses: addresses{w.machine}, Announcer: announcer{w.machine},
		Metrics: metrics, Logger: slog.New(logs{slog.DiscardHandler, w.machine}),
	})
	w.agent = a
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	w.stop = func() {
		cancel()
		running.Wait()
	}
	w.Cleanup(func() { w.stop() })
}

// create creates a load balancer and waits until it is active.
func (w *world) create(name string) *cloudv1.LoadBalancer {
	w.Helper()
	lb, job := w.begin(name)
	if err := w.cloud.Client.WaitJob(w.Context(), job); err != nil {
		w.Fatal(err)
	}
	return lb
}

// begin creates a load balancer and returns the job in which the cloud waits for the edge.
func (w *world) begin(name string) (*cloudv1.LoadBalancer, string) {
	w.Helper()
	return w.post(name, cloudv1.ProtocolTCP, "a", "b")
}

// post creates a load balancer of a protocol with these members, and returns it and the job.
func (w *world) post(name, protocol string, members ...string) (*cloudv1.LoadBalancer, string) {
	w.Helper()
	pool := cloudv1.Pool{
		Key: "tcp/80", Family: cloudv1.FamilyIPv4, Protocol: protocol, Algorithm: cloudv1.AlgorithmRoundRobin, TargetPort: 30080,
	}
	for _, key := range members {
		pool.Members = append(pool.Members, cloudv1.Member{
			Key: key, Address: fmt.Sprintf("10.0.0.%d", 1+key[0]-'a'), Port: 30080, Weight: 1, State: cloudv1.MemberActive,
		})
	}
	lb, job, err := w.cloud.Client.CreateLoadBalancer(w.Context(), cloudv1.LoadBalancerSpec{
		Name: name, LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme:    cloudv1.SchemePublic,
			Listeners: []cloudv1.Listener{{Key: "tcp/80", Protocol: protocol, Port: 80, PoolKey: "tcp/80"}},
			Pools:     []cloudv1.Pool{pool},
		},
	}, cloudapi.WriteOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return lb, job
}

func (w *world) delete(id string) {
	w.Helper()
	lb, err := w.cloud.Client.LoadBalancer(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.cloud.Client.DeleteLoadBalancer(w.Context(), id, cloudapi.WriteOptions{IfMatch: lb.Revision}); err != nil {
		w.Fatal(err)
	}
}

// eventually waits until a condition holds.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("%s: not within 2 minutes; steps: %q", what, w.machine.taken())
		}
	}
}

// until collects steps until one is taken, and returns all of them.
func (w *world) until(step string) []string {
	w.Helper()
	var all []string
	w.eventually(step, func() bool {
		all = append(all, w.machine.taken()...)
		return slices.Contains(all, step)
	})
	return all
}

func (w *world) edge() cloudv1.Edge {
	w.Helper()
	var edges *cloudv1.List[cloudv1.Edge]
	w.eventually("the edge has registered", func() (registered bool) {
		var err error
		if edges, err = w.cloud.Client.ListEdges(w.Context(), cloudapi.ListOptions{}); err != nil {
			w.Fatal(err)
		}
		return len(edges.Items) == 1
	})
	return edges.Items[0]
}

// Rules come before addresses, addresses before announcements, and the announcement goes before the rules.
func TestOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.until("announce 0")
	w.create("first")
	got := w.until("announce 1")
	if want := []string{"proxy 1", "kernel 1", "addresses 1", "announce 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	second := w.create("second")
	w.until("announce 2")
	w.delete(second.ID)
	got = w.until("announce 1")
	w.eventually("the rules go", func() bool {
		got = append(got, w.machine.taken()...)
		return len(got) >= 7
	})
	// They stay for the traffic that still arrives.
	want := []string{"announce 1", "proxy 2", "kernel 2", "addresses 2", "proxy 1", "kernel 1", "addresses 1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lb := w.create("web")
	w.eventually("the edge has applied the load balancer", func() bool {
		e := w.edge()
		return len(e.AppliedRevision) >= len(lb.Revision) && e.AppliedRevision >= lb.Revision && e.State == cloudv1.EdgeActive
	})
	w.machine.set(func() { w.machine.err = errors.New("the disk is full") })
	w.begin("broken")
	w.eventually("the fault is reported", func() bool {
		faults := w.edge().Faults
		return len(faults) == 1 && strings.Contains(faults[0].Detail, "the disk is full")
	})
	w.machine.set(func() { w.machine.err = nil })
	w.eventually("the fault is gone", func() bool { return len(w.edge().Faults) == 0 })
}

// An agent that starts while the cloud is away goes on with the last state.
func TestStartWithoutTheCloud(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web")
	w.until("announce 1")
	w.stop()
	w.cloud.Intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusBadGateway)
		return true
	})
	w.machine.taken()
	w.start()
	if got, want := w.until("announce 1"), []string{"proxy 1", "kernel 1", "addresses 1", "announce 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	w.cloud.Intercept(nil)
	w.create("second")
	w.until("announce 2")
}

func TestUnhealthyMembersGetNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lb := w.create("web")
	w.until("announce 1")
	members := func(want ...string) func() bool {
		return func() bool {
			w.machine.mu.Lock()
			defer w.machine.mu.Unlock()
			return slices.Equal(w.machine.healthy, want)
		}
	}
	w.eventually("both are used before they are probed", members("a", "b"))
	w.machine.set(func() {
		for member, state := range map[string]string{"a": cloudv1.OperatingOnline, "b": cloudv1.OperatingOffline} {
			w.machine.health = append(w.machine.health, cloudv1.MemberHealth{
				LoadBalancerID: lb.ID, PoolKey: "tcp/80", Family: "ipv4", MemberKey: member, State: state,
			})
		}
	})
	w.eventually("only a is used", members("a"))
	w.eventually("the cloud knows", func() bool {
		health, err := w.cloud.Client.LoadBalancerHealth(w.Context(), lb.ID)
		return err == nil && len(health.Pools) == 1 && slices.ContainsFunc(health.Pools[0].Members, func(m cloudv1.Member) bool {
			return m.Key == "b" && m.OperatingState == cloudv1.OperatingOffline
		})
	})
}

// An agent that starts again must not use members that the proxy knows to be unhealthy.
func TestStartKeepsUnhealthyMembersOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lb := w.create("web")
	w.until("announce 1")
	w.stop()
	w.machine.set(func() {
		w.machine.used = map[string]bool{}
		w.machine.health = []cloudv1.MemberHealth{{
			LoadBalancerID: lb.ID, PoolKey: "tcp/80", Family: "ipv4", MemberKey: "b", State: cloudv1.OperatingOffline,
		}}
	})
	w.start()
	w.until("announce 1")
	w.machine.set(func() {
		if !w.machine.used["a"] || w.machine.used["b"] {
			t.Errorf("the kernel used %v, want a only", w.machine.used)
		}
	})
}

// Load balancers that need no proxy are served even if it fails, and the kernel is checked even if nothing is new.
func TestKernelWithoutProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web")
	w.until("announce 1")
	w.machine.set(func() { w.machine.err = errors.New("there is no haproxy") })
	w.begin("second")
	w.until("announce 2")
	w.machine.set(func() {
		w.machine.err, w.machine.probeErr, w.machine.due = nil, errors.New("there is no haproxy"), true
	})
	w.machine.taken()
	w.until("kernel 2")
	w.until("kernel 2")
}

// An edge that is asked to drain withdraws its addresses and keeps its rules.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web")
	w.until("announce 1")
	edge := w.edge()
	draining := true
	if _, err := w.cloud.Client.PatchEdge(
		t.Context(), edge.ID, cloudv1.EdgePatch{Draining: &draining}, cloudapi.WriteOptions{IfMatch: edge.Revision},
	); err != nil {
		t.Fatal(err)
	}
	steps := w.until("announce 0")
	if slices.Contains(steps, "addresses 0") || slices.Contains(steps, "kernel 0") {
		t.Errorf("the edge has stopped serving: %q", steps)
	}
	draining = false
	edge = w.edge()
	if _, err := w.cloud.Client.PatchEdge(
		t.Context(), edge.ID, cloudv1.EdgePatch{Draining: &draining}, cloudapi.WriteOptions{IfMatch: edge.Revision},
	); err != nil {
		t.Fatal(err)
	}
	w.until("announce 1")
}

// An edge whose machine is stopping withdraws its addresses and serves what still arrives.
func TestLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web")
	w.until("announce 1")
	w.stop()
	w.machine.taken()
	if err := w.agent.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if steps := w.machine.taken(); !slices.Equal(steps, []string{"announce 0"}) {
		t.Errorf("steps %q", steps)
	}
}
