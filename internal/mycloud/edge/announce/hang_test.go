package announce_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/edge/announce"
)

// A program that hangs is an error after a while, whichever it is.
func TestProgramsThatHang(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	program := func(name, script string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// What it starts has its output.
	const hangs = "sleep 1000; true"
	for name, hanging := range map[string]string{"birdc": "birdc", "bird": "bird"} {
		t.Run(name, func(t *testing.T) {
			program("bird", "exit 0")
			program("birdc", "exit 0")
			program(hanging, hangs)
			bgp := announce.NewBGP(announce.BGPOptions{
				Dir: t.TempDir(), RouterID: netip.MustParseAddr("192.0.2.1"), LocalAS: 64512,
				Peers: []announce.Peer{{Address: netip.MustParseAddr("192.0.2.2"), AS: 64500}},
			})
			start := time.Now()
			err := bgp.Announce(t.Context(), []netip.Addr{first})
			if err == nil || !strings.Contains(err.Error(), hanging+" has not ended within") {
				t.Errorf("error %v", err)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}
