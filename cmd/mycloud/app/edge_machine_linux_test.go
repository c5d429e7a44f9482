package app

import (
	"net/netip"
	"strings"
	"testing"

	"quaymaster.dev/internal/edge/announce"
)

// A second agent on a machine would take back what the first one has applied.
func TestOneEdge(t *testing.T) {
	first, err := lock(t.Context())
	if err != nil {
		t.Skip(err)
	}
	if _, err := lock(t.Context()); err == nil || !strings.Contains(err.Error(), "another mycloud edge runs") {
		t.Errorf("got error %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := lock(t.Context())
	if err != nil {
		t.Fatalf("after the first one has ended: %v", err)
	}
	_ = next.Close()
}

func TestReserved(t *testing.T) {
	o := edgeOptions{}
	o.endpoint = "https://198.51.100.7:8443"
	o.bgp.Peers = []announce.Peer{{Address: netip.MustParseAddr("198.51.100.1")}}
	o.vrrp.Peers = []netip.Addr{netip.MustParseAddr("198.51.100.2")}
	got := o.reserved(t.Context())
	for address, want := range map[string]string{
		"198.51.100.7": "the API", "198.51.100.1": "a BGP peer", "198.51.100.2": "another edge", "127.0.0.1": "the machine itself",
	} {
		if got[netip.MustParseAddr(address)] != want {
			t.Errorf("%s: %q, want %q", address, got[netip.MustParseAddr(address)], want)
		}
	}
}
