package haproxy

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/edge/config"
)

var (
	seed  = flag.Uint64("seed", 1, "seed of generated states")
	steps = flag.Int("steps", 25, "number of generated states")
)

// hostile is a load balancer that changes at random, rightly or wrongly.
type hostile struct {
	*rand.Rand
	ports   []uint16
	members []config.Member
	taken   uint16
	c       config.Config
	// broken are the listeners that cannot be as they are wanted, by their keys.
	broken map[string]bool
}

// change changes, adds or removes a listener.
func (h *hostile) change() {
	i := h.IntN(len(h.ports))
	key := fmt.Sprintf("tcp/%d", i)
	id := config.PoolID{LoadBalancer: "lb-1", Key: key, Family: "ipv4"}
	h.c.Listeners = slices.DeleteFunc(h.c.Listeners, func(l config.Listener) bool { return l.Key == key })
	h.c.Pools = slices.DeleteFunc(h.c.Pools, func(p config.Pool) bool { return p.ID == id })
	delete(h.broken, key)
	if h.IntN(4) == 0 {
		return
	}
	l := config.Listener{
		LoadBalancer: "lb-1", Key: key, Address: netip.MustParseAddr("127.0.0.1"), Port: h.ports[i], Protocol: "http",
		Engine: config.Proxy, Pool: id, IdleTimeout: time.Duration(h.IntN(3)) * time.Minute,
	}
	p := config.Pool{ID: id, Algorithm: "round_robin", Members: []config.Member{h.members[h.IntN(len(h.members))]}}
	if h.IntN(3) == 0 {
		p.Algorithm, p.Monitor, p.Drain = "source_ip", tcpMonitor(), time.Hour
	}
	if h.IntN(4) == 0 {
		l.Allowed = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	switch h.IntN(8) {
	case 0:
		l.Port = h.taken
	case 1:
		l.Protocol, l.Certificates = "https", []string{"weak"}
	case 2:
		l.Protocol, l.Certificates = "https", []string{"missing", "good"}
	case 3:
		p.Members = append(p.Members, config.Member{Key: "no address"})
	case 4:
		p.Algorithm = "random"
	case 5:
		p.Monitor = &config.Monitor{Type: "http", Path: "/ /", Port: 1}
	default:
		h.c.Listeners, h.c.Pools = append(h.c.Listeners, l), append(h.c.Pools, p)
		return
	}
	h.broken[key] = true
	h.c.Listeners, h.c.Pools = append(h.c.Listeners, l), append(h.c.Pools, p)
}

// Whatever one load balancer asks for, and whatever happens to HAProxy's processes, another one is served and changed;
// each listener that cannot be as it is wanted has exactly one fault, and no other has any.
func TestGeneratedStates(t *testing.T) {
	t.Parallel()
	source := certificates{"good": keyPair(t, "a.test", 1, false), "weak": keyPair(t, "b.test", 2, true)}
	e := newEngine(t, source)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	h := &hostile{
		Rand: rand.New(rand.NewPCG(*seed, 0)), taken: uint16(taken.Addr().(*net.TCPAddr).Port), broken: map[string]bool{},
		members: []config.Member{member(t, "a"), member(t, "b"), memberAt("dead", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})},
	}
	for range 6 {
		h.ports = append(h.ports, freePort(t))
	}
	witness, p := other(t)
	for step := range *steps {
		for range 1 + h.IntN(3) {
			h.change()
		}
		// Now and then, HAProxy or the agent ends.
		switch h.IntN(10) {
		case 0:
			if pid := master(t, e); pid != 0 {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				eventually(t, 10*time.Second, "HAProxy ends", func() bool {
					return master(t, e) == 0
				})
			}
		case 1:
			e = engineIn(t, e.Dir, e.Binary, source)
		}
		name := fmt.Sprint(step)
		p.Members = []config.Member{member(t, name)}
		c := &config.Config{
			Listeners: append(slices.Clone(h.c.Listeners), witness), Pools: append(slices.Clone(h.c.Pools), p),
		}
		faults, err := e.Apply(t.Context(), c)
		if err != nil {
			t.Fatalf("seed %d, step %d: %v", *seed, step, err)
		}
		if status, body := get(t, url(witness)); status != 200 || body != name {
			t.Fatalf("seed %d, step %d: the other load balancer answers %d %q", *seed, step, status, body)
		}
		found := map[string]int{}
		for _, f := range faults {
			if found[f.ListenerKey]++; !h.broken[f.ListenerKey] || f.LoadBalancerID != "lb-1" || f.Detail == "" {
				t.Fatalf("seed %d, step %d: fault %+v", *seed, step, f)
			}
		}
		served, err := e.Serves(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range h.c.Listeners {
			at := netip.AddrPortFrom(l.Address, l.Port)
			if h.broken[l.Key] != (found[l.Key] == 1) || !h.broken[l.Key] && !slices.Contains(served, at) {
				t.Fatalf("seed %d, step %d: %+v has %d faults; served are %v", *seed, step, l, found[l.Key], served)
			}
		}
		for _, at := range served {
			if at.Port() == h.taken {
				t.Fatalf("seed %d, step %d: the port of another program is served", *seed, step)
			}
			connection, err := net.Dial("tcp", at.String())
			if err != nil {
				t.Fatalf("seed %d, step %d: %v", *seed, step, err)
			}
			connection.Close()
		}
		if e.haproxy.Hung() > 0 {
			t.Fatalf("seed %d, step %d: HAProxy was replaced", *seed, step)
		}
	}
}
