package haproxy

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// silent returns an address at which connections are neither accepted nor refused.
func silent(t testing.TB) netip.AddrPort {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(name.(*syscall.SockaddrInet4).Port))
	// The queue is full with the first connections.
	for range 2 {
		if held, err := net.DialTimeout("tcp", at.String(), time.Second); err == nil {
			t.Cleanup(func() { held.Close() })
		}
	}
	return at
}

// The members of one load balancer, thousands of them that do not answer, do not delay how soon HAProxy notices that those
// of another fail, or are back.
func TestMembersOfOthersDelayNoHealth(t *testing.T) {
	const pools, members, most = 4, 1000, 3
	e := newEngine(t, nil)
	l, p := other(t)
	p.Monitor = tcpMonitor()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.Members = []config.Member{memberAt("m", free.Addr())}
	c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}}
	apply(t, e, c)
	becomes := func(state string) time.Duration {
		start := time.Now()
		eventually(t, 60*time.Second, "the member is "+state, func() bool {
			health, err := e.Health(t.Context())
			return err == nil && slices.ContainsFunc(health, func(h cloudv1.MemberHealth) bool {
				return h.MemberKey == "m" && h.State == state
			})
		})
		return time.Since(start)
	}
	// round has the member fail and come back, and returns how long it took to notice both.
	round := func() time.Duration {
		becomes(cloudv1.OperatingOnline)
		free.Close()
		took := becomes(cloudv1.OperatingOffline)
		if free, err = net.Listen("tcp", free.Addr().String()); err != nil {
			t.Fatal(err)
		}
		return took + becomes(cloudv1.OperatingOnline)
	}
	rounds := func() time.Duration { return min(round(), round(), round()) }
	alone := rounds()
	at := silent(t)
	for i := range pools {
		slow := pool(fmt.Sprintf("tcp/%d", 1000+i))
		slow.ID.LoadBalancer, slow.Monitor = "slow", &config.Monitor{Type: "tcp", Interval: time.Second, Timeout: time.Second, Rise: 1, Fall: 3}
		for j := range members {
			slow.Members = append(slow.Members, config.Member{Key: fmt.Sprint(j), Address: at.Addr(), Port: at.Port(), Weight: 1})
		}
		c.Pools = append(c.Pools, slow)
	}
	apply(t, e, c)
	eventually(t, 60*time.Second, "members of the other load balancer are probed", func() bool {
		health, err := e.Health(t.Context())
		return err == nil && slices.ContainsFunc(health, func(h cloudv1.MemberHealth) bool {
			return h.LoadBalancerID == "slow" && h.State == cloudv1.OperatingOffline
		})
	})
	together := rounds()
	t.Logf("a failure and a return are noticed within %v, and within %v next to %d silent members", alone, together, pools*members)
	if together > most*alone {
		t.Errorf("they must be noticed within %d times as long", most)
	}
	free.Close()
}
