package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/audit"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/report"
)

// auditOptions are the flags of quayctl audit.
type auditOptions struct {
	cluster

	namespace, class, output string
	catalogs                 []string
}

var auditOutputs = []string{outputTable, outputJSON, outputSARIF}

func newAuditCommand() *cobra.Command {
	o := &auditOptions{}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Judge the objects of a cluster as admission would today",
		Long: "Judge every Service of type LoadBalancer, PersistentVolume and PersistentVolumeClaim of a cluster as admission would judge\n" +
			"it today, with the cluster's policies, and tell those that would be refused or warned of. It only reads, and Quaymaster need\n" +
			"not be installed. Exit code 0: no errors, though maybe warnings; 1: errors; 2: wrong usage, or something could not be read.",
		Example: "  quayctl audit\n  quayctl audit --context=production -n shop -o json",
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd.Flags())
	completeWith(cmd, "output", auditOutputs)
	completeWith(cmd, "catalog", catalog.Names())
	return cmd
}

func (o *auditOptions) addFlags(fs *pflag.FlagSet) {
	o.cluster.addFlags(fs)
	fs.StringVarP(&o.namespace, "namespace", "n", "", "the only `namespace` to look at; empty for all, and for PersistentVolumes")
	fs.StringVarP(&o.output, "output", "o", outputTable, "form of output: "+orList(auditOutputs))
	addJudgeFlags(fs, &o.catalogs, &o.class)
}

// addJudgeFlags are what lint and audit judge by alike.
func addJudgeFlags(fs *pflag.FlagSet, catalogs *[]string, class *string) {
	fs.StringSliceVar(catalogs, "catalog", nil, "`names` of the catalogs of annotations to judge by; empty for whichever fit")
	fs.StringVar(class, "load-balancer-class", config.DefaultLoadBalancerClass, "`class` of Services that are mycloud's besides those without one")
}

func (o *auditOptions) validate() error {
	problems := slices.Concat(oneOf("output", o.output, auditOutputs), unknownCatalogs(o.catalogs))
	if o.namespace != "" && len(validation.IsDNS1123Label(o.namespace)) > 0 {
		problems = append(problems, fmt.Sprintf("--namespace must be a DNS label such as shop; got %q", o.namespace))
	}
	if len(problems) > 0 {
		return command.Usagef("%s", strings.Join(problems, "; "))
	}
	return nil
}

func (o *auditOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	options := audit.Options{Namespace: o.namespace, Catalogs: o.catalogs, Class: o.class}
	var err error
	if options.API, options.Objects, err = o.clients(); err != nil {
		return command.Exit(command.ExitUsage, err)
	}
	clean := ""
	if isTerminal(stderr) {
		const start = "\r\x1b[K" // of the line, without what was there
		clean = start
		options.OnProgress = func(resource string, seen int) { fmt.Fprintf(stderr, start+"%s: %d", resource, seen) }
	}
	found, err := audit.Run(ctx, options)
	fmt.Fprint(stderr, clean)
	if err != nil {
		return command.Exit(command.ExitUsage, err)
	}
	if err := show(stdout, o.output, found.Results); err != nil {
		return err
	}
	if o.output == outputTable {
		fmt.Fprintln(stderr, report.Summary(found.Results, found.Judged))
	}
	return verdict(found.Results, false)
}
