package announce_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/edge/announce"
)

// What it starts has its output.
const hangs = "sleep 1000; true"

// programs puts a folder in front of the PATH, and returns what writes programs to it.
func programs(t *testing.T) (write func(name, script string)) {
	t.Helper()
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return func(name, script string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func bgpOf(dir string) *announce.BGP {
	return announce.NewBGP(announce.BGPOptions{
		Dir: dir, RouterID: netip.MustParseAddr("192.0.2.1"), LocalAS: 64512,
		Peers: []announce.Peer{{Address: netip.MustParseAddr("192.0.2.2"), AS: 64500}},
	})
}

// A program that hangs is an error after a while, whichever it is.
func TestProgramsThatHang(t *testing.T) {
	program := programs(t)
	for name, hanging := range map[string]string{"birdc": "birdc", "bird": "bird"} {
		t.Run(name, func(t *testing.T) {
			program("bird", "exit 0")
			program("birdc", "exit 0")
			program(hanging, hangs)
			start := time.Now()
			err := bgpOf(t.TempDir()).Announce(t.Context(), []netip.Addr{first})
			if err == nil || !strings.Contains(err.Error(), hanging+" has not ended within") {
				t.Errorf("error %v", err)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// A configuration that was written while bird did not answer is loaded as soon as it does.
func TestConfigurationIsLoadedAfterHang(t *testing.T) {
	program, dir := programs(t), t.TempDir()
	loads := filepath.Join(dir, "loads")
	answers := `case "$*" in *configure) echo >>` + loads + `; echo Reconfigured;; esac`
	program("bird", "exit 0")
	program("birdc", answers)
	bgp := bgpOf(dir)
	announced := func(addresses ...netip.Addr) error {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		return bgp.Announce(ctx, addresses)
	}
	if err := announced(first); err != nil {
		t.Fatal(err)
	}
	program("birdc", hangs)
	if err := announced(first, second); err == nil {
		t.Fatal("bird hangs, and there is no error")
	}
	program("birdc", answers)
	for range 2 {
		if err := announced(first, second); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(loads); err != nil || len(text) != 2 {
		t.Errorf("bird has loaded %d configurations (error %v), want 2", len(text), err)
	}
}
