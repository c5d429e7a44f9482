package edge

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quaymaster.dev/internal/mycloud/edge/announce"
)

// A second agent on a machine would take back what the first one has applied.
func TestOneEdge(t *testing.T) {
	first, err := lock()
	if err != nil {
		t.Skip(err)
	}
	if _, err := lock(); err == nil || !strings.Contains(err.Error(), "another mycloud edge runs") {
		t.Errorf("got error %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := lock()
	if err != nil {
		t.Fatalf("after the first one has ended: %v", err)
	}
	_ = next.Close()
}

// The cloud recognizes an edge that restarts, by a file that only its user can read.
func TestOwnToken(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	var tokens []string
	for _, d := range []string{dir, dir, other} {
		token, err := ownToken(d)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if len(tokens[0]) < 26 || tokens[0] != tokens[1] || tokens[0] == tokens[2] {
		t.Errorf("tokens %q", tokens)
	}
	file, err := os.Stat(filepath.Join(dir, "edge-token"))
	if err != nil || file.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", file.Mode(), err)
	}
}

func TestReserved(t *testing.T) {
	o := options{}
	o.cloud.Endpoints = func() []string { return []string{"https://198.51.100.7:8443", "https://198.51.100.8"} }
	o.bgp.Peers = []announce.Peer{{Address: netip.MustParseAddr("198.51.100.1")}}
	o.vrrp.Peers = []netip.Addr{netip.MustParseAddr("198.51.100.2")}
	// The machine has one address with the longest prefix.
	single := netip.MustParseAddr("::1")
	for name, test := range map[string]struct {
		own  []netip.Addr
		err  error
		want string
	}{
		"of the machine":     {nil, nil, "the machine itself"},
		"of a load balancer": {[]netip.Addr{single}, nil, ""},
		"unknown":            {nil, errors.New("the disk is broken"), ""},
	} {
		if got := o.reserved(isOwnAddress(test.own, test.err))[single]; got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	got := o.reserved(isOwnAddress(nil, nil))
	for address, want := range map[string]string{
		"198.51.100.1": "a BGP peer", "198.51.100.2": "another edge", "127.0.0.1": "the machine itself",
	} {
		if got[netip.MustParseAddr(address)] != want {
			t.Errorf("%s: %q, want %q", address, got[netip.MustParseAddr(address)], want)
		}
	}
	api := []netip.Addr{netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("198.51.100.8")}
	if got := o.api(t.Context()); !slices.Equal(got, api) {
		t.Errorf("the API has addresses %v, want %v", got, api)
	}
}
