package manifests

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/quayctl/app/flags"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/tool/export"
	"quaymaster.dev/internal/tool/reference"
	"quaymaster.dev/internal/tool/report"
)

// exportOptions holds the flags of quayctl export.
type exportOptions struct {
	flags.Class

	catalogs, policies []string
	unsaid             bool
	// only is true if policies are exported without catalogs.
	only bool
}

func newExportCommand() *cobra.Command {
	o := &exportOptions{}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export the checks of catalogs to other formats",
		Long: "Export catalogs to other formats: admission policies that the API server enforces without a webhook,\n" +
			"reference pages and JSON schemas.",
		Example: "  quayctl export vap --catalog=hcloud | kubectl apply --server-side -f -\n" +
			"  quayctl export vap --catalog=mycloud --unsaid\n" +
			"  quayctl export vap --policy=policies.yaml | kubectl apply --server-side -f -\n" +
			"  quayctl export jsonschema --catalog=metallb > service.schema.json",
	}
	var formats []*cobra.Command
	for _, sub := range []struct {
		name, short, long string
		run               func(stdin io.Reader, stdout, stderr io.Writer) error
	}{
		{"vap", "Export ValidatingAdmissionPolicies and their bindings",
			"Export the checks that CEL can express as ValidatingAdmissionPolicies, with bindings that deny\n" +
				"errors and warn about the rest. Checks that CEL cannot express are counted, and listed with\n" +
				"--unsaid. With --policy, export the rules of LoadBalancerPolicies and\n" +
				"ClusterLoadBalancerPolicies instead, or in addition to those of --catalog.", o.validating},
		{"map", "Export a MutatingAdmissionPolicy that sets mycloud's defaults",
			"Export a MutatingAdmissionPolicy and its binding, which add the built-in defaults of mycloud's\n" +
				"annotations to Services that become load balancers.", o.mutating},
		{"docs", "Export reference pages in Markdown",
			"Export the reference of the catalogs' annotations and findings in Markdown.", o.docs},
		{"jsonschema", "Export a JSON schema for Services with the catalogs' annotations",
			"Export a JSON schema, draft 2020-12, with which editors complete and validate the annotations\n" +
				"of Services.", o.schema},
	} {
		one := &cobra.Command{
			Use: sub.name, Short: sub.short, Long: sub.long, Args: command.NoArguments,
			Example: "  quayctl export " + sub.name,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if problems := flags.UnknownCatalogs(library.BuiltIn(), o.catalogs); len(problems) > 0 {
					return command.Usagef("%s", strings.Join(problems, "; "))
				}
				o.only = len(o.policies) > 0 && !cmd.Flags().Changed("catalog")
				return sub.run(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			},
		}
		if sub.name == "vap" {
			one.Flags().BoolVar(&o.unsaid, "unsaid", false,
				"list the checks that the policies do not contain, instead of the policies")
			one.Flags().StringArrayVar(&o.policies, "policy", nil,
				"`file` or directory with policies whose rules to export; can be repeated")
		}
		if sub.name != "map" {
			one.Flags().StringSliceVar(&o.catalogs, "catalog", []string{loadbalancer.Catalog},
				"`names` of the catalogs to export")
			flags.CompleteWith(one, "catalog", library.BuiltIn().Names())
		}
		if sub.name == "vap" || sub.name == "map" {
			o.Class.AddFlags(one.Flags())
		}
		formats = append(formats, one)
	}
	return command.Group(cmd, formats...)
}

func (o *exportOptions) validating(stdin io.Reader, stdout, stderr io.Writer) error {
	own, catalogs := export.Class(o.Class), o.catalogs
	if o.only {
		catalogs = nil
	}
	p, err := export.Validating(catalogs, own)
	if err == nil && len(o.policies) > 0 {
		err = o.addPolicies(&p, own, stdin)
	}
	if err != nil {
		return err
	}
	if o.unsaid {
		return listUnsaid(stdout, p.Unsaid)
	}
	fmt.Fprintf(stderr, "these policies do not cover %d findings of the webhook and the linter, in full or for some "+
		"keys; --unsaid lists them\n", len(p.Unsaid))
	var objects []any
	for i := range p.Policies {
		objects = append(objects, p.Policies[i], p.Bindings[i])
	}
	return writeYAML(stdout, objects...)
}

func listUnsaid(w io.Writer, list []export.Unsaid) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CATALOG\tFINDING\tFIELD\tREASON")
	for _, u := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", u.Catalog, u.Finding, u.Field, u.Why)
	}
	return table.Flush()
}

func (o *exportOptions) mutating(_ io.Reader, stdout, _ io.Writer) error {
	p, b := export.Mutating(export.Class(o.Class))
	return writeYAML(stdout, p, b)
}

func (o *exportOptions) docs(_ io.Reader, stdout, _ io.Writer) error {
	for i, name := range o.catalogs {
		if i > 0 {
			fmt.Fprintln(stdout)
		}
		c, _ := library.BuiltIn().Find(name)
		if _, err := io.WriteString(stdout, reference.Page(c)); err != nil {
			return err
		}
	}
	return nil
}

func (o *exportOptions) schema(_ io.Reader, stdout, _ io.Writer) error {
	var entries []reference.Entry
	for _, name := range o.catalogs {
		if err := export.OfServices(name); err != nil {
			return err
		}
		entries = append(entries, reference.Entries(library.BuiltIn(), name)...)
	}
	return report.Encode(stdout, export.Schema(entries))
}

// writeYAML writes objects as a stream of YAML documents.
func writeYAML(w io.Writer, objects ...any) error {
	for _, object := range objects {
		raw, err := yaml.Marshal(object)
		if err == nil {
			_, err = fmt.Fprintf(w, "---\n%s", raw)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
