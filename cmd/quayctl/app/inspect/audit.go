package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/quayctl/app/access"
	"quaymaster.dev/cmd/quayctl/app/flags"
	"quaymaster.dev/cmd/quayctl/app/output"
	"quaymaster.dev/internal/kube/notice"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/audit"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/internal/tool/suppress"
)

// auditOptions holds the flags of quayctl audit.
type auditOptions struct {
	access.Cluster
	flags.Engine
	flags.Accept

	namespace, output, selector string
	events, noIgnores           bool
}

// mostEvents is how many Events one run records at most in a namespace: the next one records those about others, once
// the first have been corrected.
const mostEvents = 100

var auditOutputs = []string{flags.Table, flags.JSON, flags.SARIF, flags.HTML}

func newAuditCommand() *cobra.Command {
	o := &auditOptions{}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Validate the objects of a cluster as admission would today",
		Long: "Validate every Service of type LoadBalancer, PersistentVolume and PersistentVolumeClaim of a cluster,\n" +
			"and the annotations of objects for which controllers create Services, such as Gateways, and of\n" +
			"Ingresses, with the checks of admission and the cluster's policies. List those that would be denied\n" +
			"or get a warning today. It does not require Quaymaster to be installed, and changes nothing; with\n" +
			"--events, it records an Event about each object that would be denied.\n\n" +
			"Findings do not count if an annotation of the object (ignore.quaymaster.dev/ID: REASON), the config\n" +
			"file or the baseline says so. Admission and Events ignore these. Tenants can set annotations;\n" +
			"--no-ignores does not follow them.\n\n" +
			"Exit code 0: no errors, possibly warnings; 1: errors; 2: wrong usage, or something could not be\n" +
			"read.",
		Example: "  quayctl audit\n  quayctl audit --context=production -n shop -o json\n" +
			"  quayctl audit -o html > audit.html",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(cmd.Flags()); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd.Flags())
	o.Engine.AddFlags(cmd)
	o.Accept.AddFlags(cmd.Flags(), "") // the folder of the caller has nothing to do with the cluster
	flags.CompleteWith(cmd, "output", auditOutputs)
	return cmd
}

func (o *auditOptions) addFlags(fs *pflag.FlagSet) {
	o.Cluster.AddFlags(fs)
	fs.StringVarP(&o.namespace, "namespace", "n", "",
		"`namespace` to check; empty for all namespaces and PersistentVolumes")
	fs.StringVarP(&o.output, "output", "o", flags.Table, "output format: "+flags.OrList(auditOutputs))
	fs.StringVar(&o.selector, "namespace-selector", "",
		"label `selector` of the namespaces whose Services, Gateways and the like are checked, as in the webhook configurations; "+
			"empty for all")
	fs.BoolVar(&o.noIgnores, "no-ignores", false, "count findings that annotations of objects ignore, which tenants can set")
	fs.BoolVar(&o.events, "events", false,
		fmt.Sprintf("record an Event about each object that admission would deny, at most %d in each namespace", mostEvents))
}

func (o *auditOptions) validate(fs *pflag.FlagSet) error {
	problems := slices.Concat(flags.OneOf("output", o.output, auditOutputs), o.Accept.Load(fs, &o.Engine))
	if o.namespace != "" && len(validation.IsDNS1123Label(o.namespace)) > 0 {
		problems = append(problems, fmt.Sprintf("--namespace must be a DNS label such as shop; got %q", o.namespace))
	}
	if _, err := labels.Parse(o.selector); err != nil {
		problems = append(problems, fmt.Sprintf("--namespace-selector must be a label selector: %s", err))
	}
	if len(problems) > 0 {
		return command.Usagef("%s", strings.Join(problems, "; "))
	}
	return nil
}

func (o *auditOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	options := audit.Options{
		Namespace: o.namespace, Catalogs: o.Names, Library: o.Library, UnknownKeys: o.Unknown,
		Class: o.Class.Name, DefaultClass: o.Class.Default, Templates: o.Templates,
	}
	var err error
	if options.Selector, err = labels.Parse(o.selector); err != nil {
		return command.Exit(command.ExitUsage, err)
	}
	if options.API, options.Objects, err = o.Clients(); err != nil {
		return command.Exit(command.ExitUsage, err)
	}
	clean := ""
	if output.IsTerminal(stderr) {
		const start = "\r\x1b[K" // clears the current line
		clean = start
		options.OnProgress = func(resource string, seen int) { fmt.Fprintf(stderr, start+"%s: %d", resource, seen) }
	}
	var unrecorded error
	if o.events {
		recorded := map[string]int{}
		options.OnInvalid = func(of corev1.ObjectReference, errs []finding.Finding) {
			if recorded[of.Namespace]++; recorded[of.Namespace] <= mostEvents && unrecorded == nil {
				unrecorded = notice.Record(ctx, options.API.CoreV1(), of, finding.Summary(errs), time.Now())
			}
		}
	}
	found, err := audit.Run(ctx, options)
	fmt.Fprint(stderr, clean)
	if err != nil {
		return command.Exit(command.ExitUsage, err)
	}
	if o.noIgnores {
		for i := range found.Results {
			found.Results[i].Ignores = nil
		}
	}
	scope := suppress.OfCluster(o.namespace)
	if o.selector != "" { // what it does not select was not read
		scope = func(suppress.Known) bool { return false }
	}
	if err := o.Apply(found.Results, nil, scope, stderr); err != nil {
		return command.Exit(command.ExitUsage, err)
	}
	summary := report.Summary(found.Results, found.Counts)
	if err := output.Show(stdout, o.output, found.Results, "Findings in the cluster", summary, o.Suppressed); err != nil {
		return err
	}
	if o.output == flags.Table {
		fmt.Fprintln(stderr, summary)
	}
	if unrecorded != nil {
		found.Unread = append(found.Unread, fmt.Errorf("record an Event: %w", unrecorded))
	}
	if len(found.Unread) > 0 {
		return command.Exit(command.ExitUsage, errors.Join(found.Unread...))
	}
	return output.Verdict(found.Results, false)
}
