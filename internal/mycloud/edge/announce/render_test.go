package announce

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

var addresses = []netip.Addr{
	netip.MustParseAddr("203.0.113.10"), netip.MustParseAddr("2001:db8:203::9"), netip.MustParseAddr("203.0.113.9"),
	netip.MustParseAddr("203.0.113.9"),
}

func golden(t *testing.T, name, got string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); run go test -update if it is right:\n%s", name, diff)
	}
}

func TestRenderBGP(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("swordfish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := NewBGP(BGPOptions{
		RouterID: netip.MustParseAddr("198.51.100.2"), LocalAS: 64512, Sources: []netip.Addr{netip.MustParseAddr("198.51.100.2")},
		Peers: []Peer{
			{Address: netip.MustParseAddr("198.51.100.100"), AS: 64500, PasswordFile: password},
			{Address: netip.MustParseAddr("2001:db8:198::64"), AS: 4200000000},
		},
	})
	config, err := b.render(addresses)
	golden(t, "bird.conf", config, err)
	config, err = b.render(nil)
	golden(t, "bird-no-addresses.conf", config, err)

	if err := os.WriteFile(password, []byte(`a"b`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.render(nil); err == nil {
		t.Error("a password with a quote is accepted")
	}
}

func TestRenderVRRP(t *testing.T) {
	v := NewVRRP(VRRPOptions{
		Interface: "ext", RouterID: 51, Priority: 100, Source: netip.MustParseAddr("198.51.100.2"),
		Peers: []netip.Addr{netip.MustParseAddr("198.51.100.3")},
	})
	config, err := v.render(addresses)
	golden(t, "keepalived.conf", config, err)
	config, err = v.render(nil)
	golden(t, "keepalived-no-addresses.conf", config, err)
}
