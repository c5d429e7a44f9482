package app

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/reference"
)

var explainOutputs = []string{outputText, outputJSON}

// explainOptions are the flags of quayctl explain.
type explainOptions struct {
	catalogs []string
	output   string
}

func newExplainCommand() *cobra.Command {
	o := &explainOptions{}
	cmd := &cobra.Command{
		Use:   "explain [KEY|FINDING|WORD...]",
		Short: "Explain an annotation or a finding, or search for annotations by words",
		Long: "Explain an annotation: what it does, which values it has, its default, its form for one port, and where that is known from; or\n" +
			"the id of a finding. Words that are neither are searched for in keys and explanations. Without any, list the catalogs.",
		Example: "  quayctl explain\n" +
			"  quayctl explain service.beta.kubernetes.io/dlb-listener-maxqps.443\n" +
			"  quayctl explain dlb-unknown-key\n" +
			"  quayctl explain --catalog=hcloud health check",
		RunE: func(cmd *cobra.Command, args []string) error {
			problems := append(oneOf("output", o.output, explainOutputs), unknownCatalogs(o.catalogs)...)
			if len(problems) > 0 {
				return command.Usagef("%s", strings.Join(problems, "; "))
			}
			return o.run(cmd.OutOrStdout(), args)
		},
		ValidArgsFunction: func(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			var keys []string
			for _, e := range reference.Search(policy.CatalogNames(), nil) {
				if strings.HasPrefix(e.Key, toComplete) {
					keys = append(keys, e.Key)
				}
			}
			return keys, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringSliceVar(&o.catalogs, "catalog", policy.CatalogNames(), "`names` of the catalogs to look into")
	cmd.Flags().StringVarP(&o.output, "output", "o", outputText, "form of output: "+orList(explainOutputs))
	completeWith(cmd, "catalog", policy.CatalogNames())
	completeWith(cmd, "output", explainOutputs)
	return cmd
}

func (o *explainOptions) run(w io.Writer, args []string) error {
	if len(args) == 0 {
		return o.list(w)
	}
	var exact []reference.Entry
	if len(args) == 1 {
		if text, found := reference.Finding(args[0]); found && o.output == outputText {
			_, err := io.WriteString(w, text)
			return err
		}
		exact = reference.Find(o.catalogs, args[0])
	}
	if len(exact) > 0 {
		return o.show(w, exact, reference.Entry.Text)
	}
	found := reference.Search(o.catalogs, args)
	if len(found) == 0 {
		return fmt.Errorf("nothing is known of %q%s", strings.Join(args, " "), nearestKey(o.catalogs, args))
	}
	if len(found) == 1 {
		return o.show(w, found, reference.Entry.Text)
	}
	return o.show(w, found, func(e reference.Entry) string { return fmt.Sprintf("%s\t%s\t%s\n", e.Catalog, e.Key, e.Help) })
}

// nearestKey goes on a sentence about one word that is no key.
func nearestKey(catalogs, args []string) string {
	if len(args) != 1 || !strings.Contains(args[0], "/") {
		return ""
	}
	return "; the nearest is " + reference.Nearest(catalogs, args[0])
}

func (o *explainOptions) show(w io.Writer, entries []reference.Entry, text func(reference.Entry) string) error {
	if o.output == outputJSON {
		return writeJSON(w, map[string]any{"annotations": entries})
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, e := range entries {
		one := text(e)
		if i > 0 && strings.Count(one, "\n") > 1 {
			one = "\n" + one
		}
		fmt.Fprint(table, one)
	}
	return table.Flush()
}

// list shows the catalogs.
func (o *explainOptions) list(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CATALOG\tCLOUD\tKEYS\tREAD FROM")
	for _, c := range reference.Catalogs(o.catalogs) {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", c.Name, c.Title, c.Keys, c.From)
	}
	return table.Flush()
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
