//go:build linux

package announce_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/edge/addresses"
	"quaymaster.dev/internal/mycloud/edge/announce"
	"quaymaster.dev/test/harness/edgenet"
)

var (
	first  = netip.MustParseAddr("203.0.113.9")
	second = netip.MustParseAddr("203.0.113.10")
	third  = netip.MustParseAddr("2001:db8:203::9")
)

const port = 8080

// patient is how long a connection may take on a busy machine, but less than the kernel takes to send a lost packet
// again. hasty is for attempts of which some are expected to fail; blackout bounds the time in which all do, which is
// below a second on a quiet machine.
const (
	patient  = 900 * time.Millisecond
	hasty    = 100 * time.Millisecond
	blackout = 1500 * time.Millisecond
)

// announcer is what the agent uses.
type announcer interface {
	Announce(ctx context.Context, addresses []netip.Addr) error
}

// prober connects to an address again and again, and notes when that failed.
type prober struct {
	stop chan struct{}
	done chan struct{}
	// tried and failed count the attempts; gap is the longest time without success.
	tried, failed int
	gap           time.Duration
}

func probe(t *testing.T, from *edgenet.Machine, address netip.Addr, timeout time.Duration) *prober {
	t.Helper()
	p := &prober{stop: make(chan struct{}), done: make(chan struct{})}
	to := netip.AddrPortFrom(address, port).String()
	go func() {
		defer close(p.done)
		last := time.Now()
		for {
			select {
			case <-p.stop:
				return
			case <-time.After(3 * time.Millisecond):
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			conn, err := from.Dial(ctx, "tcp", to)
			cancel()
			p.tried++
			if err != nil {
				p.failed++
				continue
			}
			conn.Close()
			p.gap = max(p.gap, time.Since(last))
			last = time.Now()
		}
	}()
	return p
}

func (p *prober) end() *prober {
	close(p.stop)
	<-p.done
	return p
}

// eventually waits until a machine reaches the address.
func eventually(t *testing.T, from *edgenet.Machine, address netip.Addr, want bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		conn, err := from.Dial(ctx, "tcp", netip.AddrPortFrom(address, port).String())
		cancel()
		if conn != nil {
			conn.Close()
		}
		if (err == nil) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: error %v, want an answer: %v", address, err, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func do(t *testing.T, m *edgenet.Machine, f func(context.Context) error) {
	t.Helper()
	if err := m.Do(func() error { return f(t.Context()) }); err != nil {
		t.Fatalf("%s: %v", m.Name, err)
	}
}

// end stops the daemon of a directory when the test ends.
func end(t *testing.T, dir, pidFile string) {
	t.Helper()
	t.Cleanup(func() {
		data, err := os.ReadFile(filepath.Join(dir, pidFile))
		if err != nil {
			return
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil || pid < 2 {
			return
		}
		syscall.Kill(pid, syscall.SIGTERM)
		for range 100 {
			if syscall.Kill(pid, 0) != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

const routerConfig = `
router id 198.51.100.100;
protocol device { }
protocol bfd { }
protocol kernel { merge paths on; ipv4 { import none; export where source = RTS_BGP; }; }
protocol kernel { merge paths on; ipv6 { import none; export where source = RTS_BGP; }; }
template bgp edge {
	local as 64500; hold time 9; bfd { interval 200 ms; multiplier 3; };
	connect delay time 1; connect retry time 2; error wait time 1, 2;
}
protocol bgp a4 from edge { neighbor 198.51.100.2 as 64512; password "swordfish"; ipv4 { import all; export none; }; }
protocol bgp b4 from edge { neighbor 198.51.100.3 as 64512; ipv4 { import all; export none; }; }
protocol bgp a6 from edge { neighbor 2001:db8:198::2 as 64512; ipv6 { import all; export none; }; }
protocol bgp b6 from edge { neighbor 2001:db8:198::3 as 64512; ipv6 { import all; export none; }; }
`

func TestBGP(t *testing.T) {
	t.Parallel()
	edgenet.Require(t, "nft", "bird", "birdc")
	network := edgenet.New(t, 2, 0)
	router := network.Client
	dir := t.TempDir()
	config := filepath.Join(dir, "bird.conf")
	if err := os.WriteFile(config, []byte(routerConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	end(t, dir, "bird.pid")
	do(t, router, func(ctx context.Context) error {
		_, err := router.Run(ctx, "bird", "-c", config, "-s", filepath.Join(dir, "ctl"), "-P", filepath.Join(dir, "bird.pid"))
		return err
	})
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("swordfish\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	var edges []announcer
	var dirs []string
	options := func(i int, m *edgenet.Machine) announce.BGPOptions {
		o := announce.BGPOptions{
			Dir: dirs[i], RouterID: m.Outer4, LocalAS: 64512, Sources: []netip.Addr{m.Outer4},
			Peers: []announce.Peer{{Address: router.Outer4, AS: 64500}, {Address: router.Outer6, AS: 64500}},
		}
		if i == 0 {
			o.Peers[0].PasswordFile = password
		}
		return o
	}
	for i, m := range network.Edges {
		m.Backends(t, port)
		dirs = append(dirs, filepath.Join(t.TempDir(), "bird"))
		end(t, dirs[i], "bird.pid")
		edges = append(edges, announce.NewBGP(options(i, m)))
		do(t, m, func(ctx context.Context) error {
			addresses := &addresses.Local{Dir: t.TempDir()}
			if missing, err := addresses.Apply(ctx, []netip.Addr{first, second, third}); err != nil || len(missing) > 0 {
				return fmt.Errorf("%w, missing %v", err, missing)
			}
			return edges[i].Announce(ctx, []netip.Addr{first, third})
		})
	}
	say := func(edge int, addresses ...netip.Addr) {
		t.Helper()
		do(t, network.Edges[edge], func(ctx context.Context) error { return edges[edge].Announce(ctx, addresses) })
	}
	routes := func(want int) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		for {
			out4, _ := router.Run(t.Context(), "ip", "route", "show", first.String())
			out6, _ := router.Run(t.Context(), "ip", "-6", "route", "show", third.String())
			if strings.Count(out4, "via") == want && strings.Count(out6, "via") == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the router has routes %q and %q, want %d next hops", out4, out6, want)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	routes(2)
	eventually(t, router, first, true)
	eventually(t, router, third, true)

	// A new address and a planned withdrawal lose nothing. The agent has restarted before.
	edges[0] = announce.NewBGP(options(0, network.Edges[0]))
	p := probe(t, router, first, patient)
	say(0, first, second, third)
	eventually(t, router, second, true)
	say(0)
	routes(1)
	say(0, first, third)
	routes(2)
	// On a fast machine, all of that is over before there were ten connections.
	time.Sleep(200 * time.Millisecond)
	if p.end(); p.failed > 0 || p.tried < 10 {
		t.Errorf("planned withdrawal: %d of %d connections failed", p.failed, p.tried)
	}
	eventually(t, router, second, false)

	p = probe(t, router, first, hasty)
	if err := network.Edges[1].Cut(); err != nil {
		t.Fatal(err)
	}
	routes(1)
	time.Sleep(200 * time.Millisecond)
	if p.end(); p.gap > blackout {
		t.Errorf("an edge lost its power: %v without an answer", p.gap)
	}
	t.Logf("power loss: %d of %d connections failed, longest gap %v", p.failed, p.tried, p.gap)
	if err := network.Edges[1].Restore(); err != nil {
		t.Fatal(err)
	}
	routes(2)
}

func TestVRRP(t *testing.T) {
	t.Parallel()
	edgenet.Require(t, "keepalived", "ip")
	network := edgenet.New(t, 2, 0)
	client := network.Client
	for _, pool := range []netip.Prefix{edgenet.Pool4, edgenet.Pool6} {
		if _, err := client.Run(t.Context(), "ip", "route", "add", pool.String(), "dev", edgenet.Outer); err != nil {
			t.Fatal(err)
		}
	}
	var edges []announcer
	for i, m := range network.Edges {
		m.Backends(t, port)
		dir := filepath.Join(t.TempDir(), "keepalived")
		end(t, dir, "keepalived.pid")
		edges = append(edges, announce.NewVRRP(announce.VRRPOptions{
			Dir: dir, Interface: edgenet.Outer, RouterID: 51, Priority: 200 - i, Source: m.Outer4,
			Peers: []netip.Addr{network.Edges[1-i].Outer4},
		}))
	}
	say := func(edge int, addresses ...netip.Addr) {
		t.Helper()
		do(t, network.Edges[edge], func(ctx context.Context) error { return edges[edge].Announce(ctx, addresses) })
	}
	has := func(m *edgenet.Machine) bool {
		out, err := m.Run(t.Context(), "ip", "address", "show", "dev", edgenet.Outer)
		return err == nil && strings.Contains(out, first.String()+"/32")
	}
	say(0, first, third)
	eventually(t, client, first, true)
	say(1, first, third)
	eventually(t, client, third, true)

	p := probe(t, client, first, patient)
	say(0, first, second, third)
	say(1, first, second, third)
	eventually(t, client, second, true)
	if p.end(); p.failed > 0 {
		t.Errorf("a new address: %d of %d connections failed", p.failed, p.tried)
	}
	if !has(network.Edges[0]) || has(network.Edges[1]) {
		t.Error("both edges, or the wrong one, have the address")
	}

	p = probe(t, client, first, hasty)
	say(0)
	time.Sleep(1500 * time.Millisecond)
	if p.end(); p.gap > blackout {
		t.Errorf("an edge withdrew: %v without an answer", p.gap)
	}
	t.Logf("withdrawal: %d of %d connections failed, longest gap %v", p.failed, p.tried, p.gap)
	if has(network.Edges[0]) || !has(network.Edges[1]) {
		t.Error("both edges, or the wrong one, have the address")
	}

	say(0, first, second, third)
	time.Sleep(time.Second)
	p = probe(t, client, first, hasty)
	if err := network.Edges[1].Cut(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2500 * time.Millisecond)
	if p.end(); p.gap > blackout || !has(network.Edges[0]) {
		t.Errorf("an edge lost its power: %v without an answer", p.gap)
	}
	t.Logf("power loss: %d of %d connections failed, longest gap %v", p.failed, p.tried, p.gap)
}
