package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"quaymaster.dev/provider/dlb"
)

const flagDrift = "drift"

// drift is the value of a flag.
type drift struct{ value dlb.Drift }

var _ pflag.Value = (*drift)(nil)

// String implements pflag.Value.
func (d *drift) String() string { return string(d.value) }

// Set implements pflag.Value.
func (d *drift) Set(value string) error {
	if !slices.Contains(dlb.Drifts(), value) {
		return fmt.Errorf("must be one of %s", strings.Join(dlb.Drifts(), ", "))
	}
	d.value = dlb.Drift(value)
	return nil
}

// Type implements pflag.Value.
func (d *drift) Type() string { return "string" }
