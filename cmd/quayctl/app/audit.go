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
	"quaymaster.dev/internal/report"
)

// auditOptions holds the flags of quayctl audit.
type auditOptions struct {
	cluster

	classFlags

	namespace, output string
	catalogs          []string
}

var auditOutputs = []string{outputTable, outputJSON, outputSARIF}

func newAuditCommand() *cobra.Command {
	o := &auditOptions{}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Validate the objects of a cluster as admission would today",
		Long: "Validate every Service of type LoadBalancer, PersistentVolume and PersistentVolumeClaim of a cluster\n" +
			"with the checks of admission and the cluster's policies, and list those that would be denied or get\n" +
			"a warning today. It is read-only and does not require Quaymaster to be installed.\n\n" +
			"Exit code 0: no errors, possibly warnings; 1: errors; 2: wrong usage, or something could not be\n" +
			"read.",
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
	fs.StringVarP(&o.namespace, "namespace", "n", "",
		"`namespace` to check; empty for all namespaces and PersistentVolumes")
	fs.StringVarP(&o.output, "output", "o", outputTable, "output format: "+orList(auditOutputs))
	addEngineFlags(fs, &o.catalogs, &o.classFlags)
}

// addEngineFlags adds the flags for validation that lint and audit share.
func addEngineFlags(fs *pflag.FlagSet, catalogs *[]string, class *classFlags) {
	fs.StringSliceVar(catalogs, "catalog", nil,
		"`names` of the catalogs to validate annotations with; if empty, they are detected for each Service")
	class.addFlags(fs)
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
	options := audit.Options{Namespace: o.namespace, Catalogs: o.catalogs, Class: o.class, ClassOnly: !o.defaultClass}
	var err error
	if options.API, options.Objects, err = o.clients(); err != nil {
		return command.Exit(command.ExitUsage, err)
	}
	clean := ""
	if isTerminal(stderr) {
		const start = "\r\x1b[K" // clears the current line
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
		fmt.Fprintln(stderr, report.Summary(found.Results, found.Checked))
	}
	return verdict(found.Results, false)
}
