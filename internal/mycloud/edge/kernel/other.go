//go:build !linux

package kernel

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// errPlatform is the error of all functions on other systems, on which programs with this package can still be built.
var errPlatform = errors.New("edges need Linux")

// Options configures an Engine.
type Options struct {
	Dir                      string
	MaxFlows, MaxConnections int
	Router                   bool
	Clock                    clock.PassiveClock
	Logger                   *slog.Logger
}

// Engine does nothing.
type Engine struct{}

// New returns an engine.
func New(Options) *Engine { return &Engine{} }

// Apply returns an error.
func (*Engine) Apply(
	context.Context, *config.Config, func(config.PoolID, string) bool,
) ([]cloudv1.EdgeFault, error) {
	return nil, errPlatform
}

// Serves returns nil.
func (*Engine) Serves() []netip.AddrPort { return nil }

// Due returns false.
func (*Engine) Due() bool { return false }

// Counters returns an error.
func (*Engine) Counters(context.Context) ([]cloudv1.ListenerCounter, error) { return nil, errPlatform }

// Overflows returns nil.
func (*Engine) Overflows() []config.Overflow { return nil }

// Addresses does nothing.
type Addresses struct {
	Dir, Interface string
	Pools          []netip.Prefix
}

// Apply returns an error.
func (*Addresses) Apply(context.Context, []netip.Addr) (map[netip.Addr]error, error) {
	return nil, errPlatform
}
