package app

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/export"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/reference"
	"quaymaster.dev/internal/report"
)

// exportOptions are the flags of quayctl export.
type exportOptions struct {
	catalogs []string
	class    string
	unsaid   bool
}

func newExportCommand() *cobra.Command {
	o := &exportOptions{}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the rules of catalogs in other forms",
		Long:  "Write what the catalogs know in other forms: policies that API servers apply without any webhook, reference pages, JSON schema.",
		Example: "  quayctl export vap --catalog=hcloud | kubectl apply -f -\n" +
			"  quayctl export vap --catalog=mycloud --unsaid\n" +
			"  quayctl export jsonschema --catalog=metallb > service.schema.json",
	}
	var forms []*cobra.Command
	for _, sub := range []struct {
		name, short, long string
		run               func(stdout, stderr io.Writer) error
	}{
		{"vap", "Write ValidatingAdmissionPolicies and their bindings",
			"Write ValidatingAdmissionPolicies, and bindings that let them refuse errors and warn of the rest, for the rules that CEL can say;\n" +
				"what it cannot say is counted, and listed by --unsaid.", o.validating},
		{"map", "Write a MutatingAdmissionPolicy that adds mycloud's defaults", "Write the MutatingAdmissionPolicy, and its binding, that adds the built-in defaults\n" +
			"of mycloud's annotations to Services that become load balancers.", o.mutating},
		{"docs", "Write reference pages in Markdown", "Write what is known of every annotation of the catalogs, and of their findings, in Markdown.", o.docs},
		{"jsonschema", "Write a JSON schema of Services with the catalogs' annotations",
			"Write a JSON schema, draft 2020-12, by which editors complete and check the annotations of Services.", o.schema},
	} {
		one := &cobra.Command{
			Use: sub.name, Short: sub.short, Long: sub.long, Args: command.NoArguments,
			Example: "  quayctl export " + sub.name + " --catalog=" + loadbalancer.Catalog,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if problems := unknownCatalogs(o.catalogs); len(problems) > 0 {
					return command.Usagef("%s", strings.Join(problems, "; "))
				}
				return sub.run(cmd.OutOrStdout(), cmd.ErrOrStderr())
			},
		}
		if sub.name == "vap" {
			one.Flags().BoolVar(&o.unsaid, "unsaid", false, "list what the policies leave out instead of writing them")
		}
		if sub.name != "map" {
			one.Flags().StringSliceVar(&o.catalogs, "catalog", []string{loadbalancer.Catalog}, "`names` of catalogs")
			completeWith(one, "catalog", catalog.Names())
		}
		if sub.name == "vap" || sub.name == "map" {
			one.Flags().StringVar(&o.class, "load-balancer-class", config.DefaultLoadBalancerClass, "`class` of Services that are mycloud's besides those without one")
		}
		forms = append(forms, one)
	}
	return command.Group(cmd, forms...)
}

func (o *exportOptions) validating(stdout, stderr io.Writer) error {
	p, err := export.Validating(o.catalogs, o.class)
	if err != nil {
		return err
	}
	if o.unsaid {
		return listUnsaid(stdout, p.Unsaid)
	}
	fmt.Fprintf(stderr, "%d findings of webhook and linter are not said by these policies, in whole or for some keys; --unsaid lists them\n", len(p.Unsaid))
	var objects []any
	for i := range p.Policies {
		objects = append(objects, p.Policies[i], p.Bindings[i])
	}
	return writeYAML(stdout, objects...)
}

func listUnsaid(w io.Writer, list []export.Unsaid) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CATALOG\tFINDING\tOF\tWHY")
	for _, u := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", u.Catalog, u.Finding, u.Field, u.Why)
	}
	return table.Flush()
}

func (o *exportOptions) mutating(stdout, _ io.Writer) error {
	p, b := export.Mutating(o.class)
	return writeYAML(stdout, p, b)
}

func (o *exportOptions) docs(stdout, _ io.Writer) error {
	for i, name := range o.catalogs {
		if i > 0 {
			fmt.Fprintln(stdout)
		}
		c, _ := catalog.Find(name)
		if _, err := io.WriteString(stdout, reference.Page(c)); err != nil {
			return err
		}
	}
	return nil
}

func (o *exportOptions) schema(stdout, _ io.Writer) error {
	var entries []reference.Entry
	for _, name := range o.catalogs {
		entries = append(entries, reference.Entries(name)...)
	}
	return report.Encode(stdout, export.Schema(entries))
}

// writeYAML writes a stream of documents.
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
