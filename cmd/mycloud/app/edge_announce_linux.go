package app

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/pflag"

	"quaymaster.dev/internal/edge/agent"
)

// The values of --announce.
const announceNone = "none"

// announceOptions holds the flags that say how an edge attracts traffic.
type announceOptions struct {
	method string
}

func (o *announceOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.method, "announce", announceNone, "how the network learns of addresses: none (one edge, routed by others)")
}

func (o *announceOptions) validate() []error {
	if o.method != announceNone {
		return []error{fmt.Errorf("--announce %q: must be %s", o.method, announceNone)}
	}
	return nil
}

// shared reports whether several edges carry traffic at the same time.
func (o *announceOptions) shared() bool { return false }

func (o *announceOptions) announcer(string) (agent.Announcer, error) { return silent{}, nil }

// silent announces nothing.
type silent struct{}

// Announce implements agent.Announcer.
func (silent) Announce(context.Context, []netip.Addr) error { return nil }

// Settle implements agent.Announcer.
func (silent) Settle() time.Duration { return 0 }
