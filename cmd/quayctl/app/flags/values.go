package flags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quaymaster.dev/internal/config"
)

// Program is the name of quayctl.
const Program = "quayctl"

// The formats of output.
const (
	Text   = "text"
	Table  = "table"
	JSON   = "json"
	SARIF  = "sarif"
	GitHub = "github"
	HTML   = "html"
)

// Class says which Services are ours, as in the cloud config.
type Class struct {
	Name    string
	Default bool
}

// AddFlags adds the flags.
func (c *Class) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Name, "load-balancer-class", config.DefaultLoadBalancerClass, "loadBalancerClass of mycloud's Services")
	fs.BoolVar(&c.Default, "default-class", true, "Services without a class are mycloud's, too")
}

// OrList joins words as in "a, b or c".
func OrList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// OneOf returns a problem unless the value of the flag is allowed.
func OneOf(flag, value string, allowed []string) []string {
	if slices.Contains(allowed, value) {
		return nil
	}
	return []string{fmt.Sprintf("--%s must be %s; got %q", flag, OrList(allowed), value)}
}

// CompleteWith adds shell completion for the values of a flag.
func CompleteWith(cmd *cobra.Command, flag string, values []string) {
	complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag does not exist
	}
}
