package inspect

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/quayctl/app/access"
	"quaymaster.dev/cmd/quayctl/app/flags"
	"quaymaster.dev/cmd/quayctl/app/output"
	"quaymaster.dev/internal/tool/doctor"
)

// doctorOptions holds the flags of quayctl doctor.
type doctorOptions struct {
	access.Cluster

	namespace, releaseNamespace, release, class, cloudConfig, output string
}

func newDoctorCommand() *cobra.Command {
	o := &doctorOptions{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check an installation, and show how to fix what fails",
		Long: "Check an installation step by step: API server, webhooks, certificates, permissions, controllers,\n" +
			"cloud, Nodes, load balancers and policies. For each problem, show its cause and how to fix it,\n" +
			"beginning with what others depend on. Nothing is changed: the Services sent to the webhooks are dry\n" +
			"runs. The release is found by its labels, and the cloud's endpoint in its ConfigMap. Whether the\n" +
			"cloud answers is asked from this machine, without credentials, and from inside the cluster, where the\n" +
			"leader of the controllers records it.\n\n" +
			"Exit code 0: no check failed, possibly warnings; 1: a check failed; 2: wrong usage.",
		Example: "  quayctl doctor\n  quayctl doctor --context=production -n shop\n" +
			"  quayctl doctor --release-namespace=edge --release=quay --cloud-config=cloud.yaml -o json",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd.Flags())
	flags.CompleteWith(cmd, "output", []string{flags.Text, flags.JSON})
	return cmd
}

func (o *doctorOptions) addFlags(fs *pflag.FlagSet) {
	o.Cluster.AddFlags(fs)
	fs.StringVarP(&o.namespace, "namespace", "n", "",
		"`namespace` of the Services and policies to check; empty for all namespaces")
	fs.StringVar(&o.release, "release", "", "`name` of the Helm release; if empty, it is found")
	fs.StringVar(&o.releaseNamespace, "release-namespace", "", "`namespace` of the Helm release; if empty, it is found")
	fs.StringVar(&o.cloudConfig, "cloud-config", "",
		"cloud config `file` for this machine, whose token is also checked; if empty, that of the release is used")
	fs.StringVar(&o.class, "load-balancer-class", "",
		"loadBalancerClass of the Services that are created as a dry run; needed if Services without a `class` are not ours")
	fs.StringVarP(&o.output, "output", "o", flags.Text, "output format: text or json")
}

// validate returns every problem in the flags as one error.
func (o *doctorOptions) validate() error {
	var problems []string
	for _, named := range []struct{ flag, value, example string }{
		{"--namespace", o.namespace, "shop"}, {"--release-namespace", o.releaseNamespace, "quaymaster-system"},
		{"--release", o.release, "quaymaster"},
	} {
		if named.value != "" && len(validation.IsDNS1123Label(named.value)) > 0 {
			problems = append(problems,
				fmt.Sprintf("%s must be a DNS label such as %s; got %q", named.flag, named.example, named.value))
		}
	}
	problems = append(problems, flags.OneOf("output", o.output, []string{flags.Text, flags.JSON})...)
	if len(problems) > 0 {
		return command.Usagef("%s", strings.Join(problems, "; "))
	}
	return nil
}

func (o *doctorOptions) run(ctx context.Context, out io.Writer) error {
	checks, err := o.checks()
	if err != nil {
		return err
	}
	found := doctor.Run(ctx, checks)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("check the installation: %w", err)
	}
	if o.output == flags.JSON {
		err = found.JSON(out)
	} else {
		err = found.Text(out, output.WidthOf(out))
	}
	if err != nil {
		return err
	}
	if failed := found.Failed(); len(failed) > 0 {
		return fmt.Errorf("%d of %d checks failed: %s", len(failed), len(found), strings.Join(failed, ", "))
	}
	return nil
}
