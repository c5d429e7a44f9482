// Package announce attracts the traffic for the addresses of load balancers to an edge: by BGP, by VRRP, or not at all.
// Routing is left to bird and keepalived. They run on when the agent ends, and the next one finds them again.
package announce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"quaymaster.dev/internal/durable"
	"quaymaster.dev/internal/mycloud/edge/program"
)

// None announces nothing: the machine's own address resolution, or static routes, attract the traffic.
type None struct{}

// Announce does nothing.
func (None) Announce(context.Context, []netip.Addr) error { return nil }

// Settle returns 0.
func (None) Settle() time.Duration { return 0 }

// sorted returns the addresses of one family, in order.
func sorted(addresses []netip.Addr, v6 bool) []netip.Addr {
	list := slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool { return a.Is6() != v6 })
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// configFile is the configuration of a daemon.
type configFile struct {
	path string
	// check is the command that checks a configuration, without the path of it.
	check []string
	// loaded is true once the daemon has loaded what the file contains, since this process began.
	loaded bool
}

// write replaces the configuration by one that the daemon accepts. Only if it differs, it has to be loaded again.
func (f *configFile) write(ctx context.Context, content string) error {
	if old, err := os.ReadFile(f.path); err == nil && string(old) == content {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(f.path), err)
	}
	// The configuration has passwords.
	next := f.path + ".candidate"
	if err := durable.Replace(next, []byte(content)); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(f.path), err)
	}
	if _, err := run(ctx, append(slices.Clone(f.check), next)...); err != nil {
		return errors.Join(fmt.Errorf("check %s: %w", filepath.Base(f.path), err), os.Remove(next))
	}
	f.loaded = false
	if err := os.Rename(next, f.path); err != nil {
		return fmt.Errorf("replace %s: %w", filepath.Base(f.path), err)
	}
	return nil
}

// limit is how long a program of a daemon may take.
const limit = 5 * time.Second

// run runs a command and returns its output, which is part of the error as well.
func run(ctx context.Context, command ...string) (string, error) {
	return program.Run(ctx, limit, "", command...)
}
