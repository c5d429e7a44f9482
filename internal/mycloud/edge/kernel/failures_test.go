//go:build linux

package kernel_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/test/harness/edgenet"
)

// An address that the machine cannot have, a file that cannot be read and a disk that is full hold up no other address.
func TestAddressesThatFail(t *testing.T) {
	w := newWorld(t, 1, 0)
	e := w.edges[0]
	others := []netip.Addr{vip4, netip.MustParseAddr("203.0.113.77")}
	w.must(os.WriteFile(filepath.Join(e.dir, "addresses.json"), []byte(`["203.0.`), 0o600))
	w.must(e.Do(func() error {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/lo/disable_ipv6", []byte("1"), 0); err != nil {
			return err
		}
		missing, err := e.addresses.Apply(t.Context(), append([]netip.Addr{vip6}, others...))
		if len(missing) != 1 || missing[vip6] == nil || err == nil {
			t.Errorf("missing %v, error %v", missing, err)
		}
		return nil
	}))
	has := func(want int) {
		t.Helper()
		w.must(e.Do(func() error {
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			list, err := netlink.AddrList(lo, netlink.FAMILY_V4)
			n := 0
			for _, a := range list {
				if a.IP.Equal(others[0].AsSlice()) || a.IP.Equal(others[1].AsSlice()) {
					n++
				}
			}
			if n != want {
				t.Errorf("the machine has %d of the addresses, want %d", n, want)
			}
			return err
		}))
	}
	has(2)
	w.must(os.RemoveAll(e.dir))
	w.must(e.Do(func() error {
		if _, err := e.addresses.Apply(t.Context(), nil); err == nil {
			t.Error("it does not say that it cannot write")
		}
		return nil
	}))
	has(0)
}

// While the network of the nodes is away, the engine goes on with what does not need it, and finds it again by itself.
func TestNetworkOfNodesIsAway(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.listen("tcp", vip4, func(_ *config.Listener, p *config.Pool) { p.Drain = time.Hour })
	w.listen("udp", vip4, func(l *config.Listener, _ *config.Pool) { l.Engine = config.NAT })
	w.apply()
	w.open(2, "tcp", vip4)
	e := w.edges[0]
	set := func(up bool) {
		t.Helper()
		w.must(e.Do(func() error {
			link, err := netlink.LinkByName(edgenet.Inner)
			if err != nil {
				return err
			}
			if up {
				return netlink.LinkSetUp(link)
			}
			return netlink.LinkSetDown(link)
		}))
	}
	apply := func() (faults []cloudv1.EdgeFault) {
		t.Helper()
		w.must(e.Do(func() (err error) {
			faults, err = e.engine.Apply(t.Context(), w.config, func(config.PoolID, string) bool { return true })
			return err
		}))
		return faults
	}
	set(false)
	if faults := apply(); len(faults) != 2 {
		t.Errorf("faults %v, want one for each node", faults)
	}
	set(true)
	for deadline := time.Now().Add(3 * time.Second); !e.engine.Due(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the engine does not look again")
		}
	}
	if faults := apply(); len(faults) != 0 {
		t.Errorf("faults %v", faults)
	}
	w.open(2, "tcp", vip4)
}
