package operate

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/internal/connect"
	"quaymaster.dev/cmd/quayctl/app/flags"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/plan"
)

// exitChanges is the exit code of a plan with changes. Every error, wrong usage included, has another one.
const exitChanges = 2

// planOptions holds the flags of quayctl plan.
type planOptions struct {
	clusterInCloud

	drift, output string
	clusterCIDRs  []string
}

var planOutputs = []string{flags.Text, flags.JSON}

func newPlanCommand() *cobra.Command {
	o := &planOptions{}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what the controllers would write to the cloud now, and why",
		Long: "Show what the controllers would write to the cloud if they started now, and why. The decisions are\n" +
			"those of the controllers, and so are the requests, byte for byte. Nothing is written, neither to the\n" +
			"cloud nor to the API server.\n\n" +
			"A plan has the next write of each load balancer, node group and route table. What depends on the\n" +
			"response to one of these waits, and is in a later plan. It does not have what the controllers write\n" +
			"to the API server, or do only after some time, such as deleting Nodes or load balancers without a\n" +
			"Service.\n\n" +
			"Exit code 0: nothing would be written; 1: an error, or wrong usage; 2: something would be written.",
		Example: "  quayctl plan --cloud-config=cloud.yaml\n" +
			"  quayctl plan --cloud-config=cloud.yaml --cluster-cidr=10.244.0.0/16 -o json",
		Args: func(cmd *cobra.Command, args []string) error { return failure(command.NoArguments(cmd, args)) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return failure(err) })
	o.addFlags(cmd.Flags())
	flags.CompleteWith(cmd, "output", planOutputs)
	flags.CompleteWith(cmd, "drift", dlb.Drifts())
	return cmd
}

// failure gives an error the exit code of errors, so that wrong usage is not mistaken for changes.
func failure(err error) error {
	if err == nil {
		return nil
	}
	return command.Exit(command.ExitFailure, err)
}

func (o *planOptions) addFlags(fs *pflag.FlagSet) {
	o.clusterInCloud.addFlags(fs)
	fs.StringSliceVar(&o.clusterCIDRs, "cluster-cidr", nil,
		"pod `CIDRs`, as for the controllers; if empty, routes are not planned")
	fs.StringVar(&o.drift, "drift", string(dlb.DriftRepair), "as for the controllers: "+flags.OrList(dlb.Drifts()))
	fs.StringVarP(&o.output, "output", "o", flags.Text, "output format: "+flags.OrList(planOutputs))
}

// options returns every problem of the flags as one error.
func (o *planOptions) options() (plan.Options, error) {
	options := plan.Options{Namespace: o.namespace, Drift: dlb.Drift(o.drift)}
	problems := slices.Concat(flags.OneOf("output", o.output, planOutputs), flags.OneOf("drift", o.drift, dlb.Drifts()))
	for _, cidr := range o.clusterCIDRs {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(cidr))
		if err != nil {
			problems = append(problems, fmt.Sprintf("--cluster-cidr must be a CIDR such as 10.244.0.0/16; got %q", cidr))
		}
		options.ClusterCIDRs = append(options.ClusterCIDRs, prefix.Masked())
	}
	var err error
	if o.cloudConfig == "" {
		problems = append(problems, "--cloud-config is required")
	} else if options.Config, err = config.Load(o.cloudConfig); err != nil {
		problems = append(problems, "--cloud-config: "+err.Error())
	}
	if options.Cluster, err = o.RESTConfig(); err != nil {
		problems = append(problems, err.Error())
	}
	if len(problems) > 0 {
		return options, fmt.Errorf("%s", strings.Join(problems, "; "))
	}
	options.Cloud = connect.Cloud(options.Config, flags.Program)
	// A watch of the cluster may last longer than one call.
	options.Cluster.Timeout = 0
	options.Identity = o.identity(options.Cluster)
	return options, nil
}

func (o *planOptions) run(ctx context.Context, out io.Writer) error {
	options, err := o.options()
	if err != nil {
		return err
	}
	made, err := plan.Make(ctx, options)
	if err != nil {
		return err
	}
	if err := o.print(out, made); err != nil {
		return err
	}
	if len(made.Changes) > 0 {
		return command.Exit(exitChanges, nil)
	}
	return nil
}

func (o *planOptions) print(out io.Writer, made *plan.Plan) error {
	if o.output == flags.JSON {
		return report.Encode(out, made)
	}
	var text strings.Builder
	for _, c := range made.Changes {
		fmt.Fprintf(&text, "%s: %s\n  %s %s\n", c.Object, c.Reason, c.Method, c.Path)
		for _, key := range slices.Sorted(maps.Keys(c.Header)) {
			fmt.Fprintf(&text, "  %s: %s\n", key, c.Header[key])
		}
		for _, difference := range c.Differences {
			fmt.Fprintf(&text, "    %s\n", difference)
		}
		if len(c.Differences) == 0 && c.Body != "" {
			fmt.Fprintf(&text, "    %s\n", c.Body)
		}
	}
	for _, w := range made.Waiting {
		fmt.Fprintf(&text, "%s waits: %s\n", w.Object, w.Reason)
	}
	fmt.Fprintf(&text, "changes: %d; waiting: %d\n", len(made.Changes), len(made.Waiting))
	_, err := io.WriteString(out, text.String())
	return err
}
