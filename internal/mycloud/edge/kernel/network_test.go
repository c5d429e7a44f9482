//go:build linux

package kernel_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/addresses"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/kernel"
	"quaymaster.dev/test/harness/edgenet"
)

// The addresses of the load balancer, and the port that nodes redirect its packets to.
var (
	vip4 = netip.MustParseAddr("203.0.113.9")
	vip6 = netip.MustParseAddr("2001:db8:203::9")
)

const backendPort = 8080

// world is a network whose edges run the engine.
type world struct {
	*edgenet.Topology
	t     *testing.T
	edges []*edge
	// config is what all edges apply, and down has the nodes that are not healthy.
	config *config.Config
	down   map[string]bool
}

type edge struct {
	*edgenet.Machine
	dir       string
	engine    *kernel.Engine
	addresses *addresses.Local
}

func newWorld(t *testing.T, edges, nodes int) *world {
	t.Helper()
	edgenet.Require(t, "nft")
	w := &world{
		Topology: edgenet.New(t, edges, nodes), t: t, config: &config.Config{Pools: make([]config.Pool, 0, 8)}, down: map[string]bool{},
	}
	for _, m := range w.Edges {
		e := &edge{Machine: m, dir: t.TempDir()}
		e.restart()
		w.edges = append(w.edges, e)
	}
	for _, node := range w.Nodes {
		node.Backends(t, backendPort)
		for _, vip := range []netip.Addr{vip4, vip6} {
			for _, protocol := range []string{"tcp", "udp"} {
				w.must(node.Publish(t.Context(), protocol, netip.AddrPortFrom(vip, 80), backendPort))
			}
		}
	}
	w.must(w.RouteTo(w.Edges...))
	return w
}

// restart gives the edge a new engine, which knows only what the last one has left.
func (e *edge) restart() {
	e.engine = kernel.New(kernel.Options{Dir: e.dir})
	e.addresses = &addresses.Local{Dir: e.dir}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// listen adds a listener with a pool of all nodes to the configuration, which change may change.
func (w *world) listen(protocol string, vip netip.Addr, change func(*config.Listener, *config.Pool)) *config.Pool {
	family, member := cloudv1.FamilyIPv4, func(m *edgenet.Machine) netip.Addr { return m.Inner4 }
	if vip.Is6() {
		family, member = cloudv1.FamilyIPv6, func(m *edgenet.Machine) netip.Addr { return m.Inner6 }
	}
	id := config.PoolID{LoadBalancer: "lb-1", Key: protocol + "/80", Family: family}
	listener := config.Listener{
		LoadBalancer: id.LoadBalancer, Key: id.Key, Address: vip, Port: 80, Protocol: protocol, Engine: config.Direct, Pool: id,
	}
	pool := config.Pool{ID: id, Protocol: protocol, Algorithm: cloudv1.AlgorithmRoundRobin}
	for _, node := range w.Nodes {
		pool.Members = append(pool.Members, config.Member{Key: node.Name, Address: member(node), Port: backendPort, Weight: 1})
	}
	if change != nil {
		change(&listener, &pool)
	}
	if !slices.Contains(w.config.Addresses, vip) {
		w.config.Addresses = append(w.config.Addresses, vip)
	}
	w.config.Listeners = append(w.config.Listeners, listener)
	w.config.Pools = append(w.config.Pools, pool)
	return &w.config.Pools[len(w.config.Pools)-1]
}

func (w *world) apply() {
	w.t.Helper()
	w.applyTo(w.edges...)
}

func (w *world) applyTo(edges ...*edge) {
	w.t.Helper()
	for _, e := range edges {
		w.must(e.Do(func() error {
			healthy := func(_ config.PoolID, member string) bool { return !w.down[member] }
			faults, err := e.engine.Apply(w.t.Context(), w.config, healthy)
			for _, f := range faults {
				err = errors.Join(err, errors.New(f.Detail))
			}
			return errors.Join(err, e.answer(w.t.Context(), w.config.Addresses))
		}))
	}
}

// answer sets the addresses of the edge.
func (e *edge) answer(ctx context.Context, addresses []netip.Addr) error {
	missing, err := e.addresses.Apply(ctx, addresses)
	return errors.Join(append(slices.Collect(maps.Values(missing)), err)...)
}

// counters returns the counters of an edge by listener.
func (w *world) counters(e *edge) map[string]cloudv1.ListenerCounter {
	w.t.Helper()
	byKey := map[string]cloudv1.ListenerCounter{}
	w.must(e.Do(func() error {
		counters, err := e.engine.Counters(w.t.Context())
		for _, c := range counters {
			byKey[c.ListenerKey] = c
		}
		return err
	}))
	return byKey
}

// conversation is a connection to a backend.
type conversation struct {
	net.Conn
	answers *bufio.Reader
	node    string
	client  string
}

func (w *world) dial(protocol string, vip netip.Addr) (*conversation, error) {
	return w.dialFor(2*time.Second, protocol, vip)
}

func (w *world) dialFor(timeout time.Duration, protocol string, vip netip.Addr) (*conversation, error) {
	return w.dialTo(timeout, protocol, netip.AddrPortFrom(vip, 80))
}

func (w *world) dialTo(timeout time.Duration, protocol string, to netip.AddrPort) (*conversation, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), timeout)
	defer cancel()
	conn, err := w.Client.Dial(ctx, protocol, to.String())
	if err != nil {
		return nil, err
	}
	c := &conversation{Conn: conn, answers: bufio.NewReader(conn)}
	if err := c.exchangeWithin(timeout); err != nil {
		conn.Close()
		return nil, err
	}
	w.t.Cleanup(func() { conn.Close() })
	return c, nil
}

// exchange sends a question and waits for the answer.
func (c *conversation) exchange() error {
	return c.exchangeWithin(2 * time.Second)
}

func (c *conversation) exchangeWithin(timeout time.Duration) error {
	c.SetDeadline(time.Now().Add(timeout))
	if _, err := fmt.Fprintln(c, "who"); err != nil {
		return err
	}
	line, err := c.answers.ReadString('\n')
	if err != nil {
		return err
	}
	node, client, _ := strings.Cut(strings.TrimSpace(line), " ")
	if c.node != "" && c.node != node {
		return fmt.Errorf("%s answers after %s", node, c.node)
	}
	c.node = node
	c.client, _, err = net.SplitHostPort(client)
	return err
}

// open opens conversations, and returns them by node.
func (w *world) open(n int, protocol string, vip netip.Addr) map[string][]*conversation {
	w.t.Helper()
	all := map[string][]*conversation{}
	for range n {
		c, err := w.dial(protocol, vip)
		if err != nil {
			w.t.Fatalf("%s connection: %v", protocol, err)
		}
		all[c.node] = append(all[c.node], c)
	}
	return all
}

// broken returns how many conversations cannot be continued.
func broken(conversations ...*conversation) int {
	var failed atomic.Int64
	var running sync.WaitGroup
	for _, c := range conversations {
		running.Go(func() {
			if c.exchange() != nil {
				failed.Add(1)
			}
		})
	}
	running.Wait()
	return int(failed.Load())
}

func flatten(all map[string][]*conversation) []*conversation {
	var list []*conversation
	for _, c := range all {
		list = append(list, c...)
	}
	return list
}

// updateUnderTraffic changes the members of the first listener, of UDP, and the limit of the second, while clients use
// the first. No packet must be lost.
func (w *world) updateUnderTraffic(updates int) {
	w.t.Helper()
	flows := flatten(w.open(10, "udp", vip4))
	stop, done := make(chan struct{}), make(chan [2]int)
	for _, c := range flows {
		go func() {
			sent, lost := 0, 0
			for {
				select {
				case <-stop:
					done <- [2]int{sent, lost}
					return
				case <-time.After(5 * time.Millisecond):
				}
				sent++
				if c.exchange() != nil {
					lost++
				}
			}
		}()
	}
	pool := &w.config.Pools[0]
	members := pool.Members
	for i := range updates {
		pool.Members = members
		if i%2 == 0 {
			pool.Members = members[:2]
		}
		w.config.Listeners[1].MaxQPS = float64(100 + i)
		w.apply()
	}
	close(stop)
	sent, lost := 0, 0
	for range flows {
		n := <-done
		sent, lost = sent+n[0], lost+n[1]
	}
	if lost > 0 || sent < 100 {
		w.t.Errorf("%d of %d packets were lost over %d updates", lost, sent, updates)
	}
	w.t.Logf("%d packets, %d updates", sent, updates)
}
