package manifests

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/quayctl/app/flags"
	"quaymaster.dev/internal/tool/reference"
	"quaymaster.dev/internal/tool/report"
)

var explainOutputs = []string{flags.Text, flags.JSON}

// explainOptions holds the flags of quayctl explain.
type explainOptions struct {
	flags.Catalogs

	output string
}

func newExplainCommand() *cobra.Command {
	o := &explainOptions{}
	cmd := &cobra.Command{
		Use:   "explain [KEY|FINDING|WORD...]",
		Short: "Explain an annotation or a finding, or search for annotations",
		Long: "Explain an annotation: its purpose, allowed values, default, per-port form and the source of this\n" +
			"information; or explain the ID of a finding. Any other words are searched for in keys and\n" +
			"descriptions. Without arguments, list the catalogs.",
		Example: "  quayctl explain\n" +
			"  quayctl explain service.beta.kubernetes.io/dlb-listener-maxqps.443\n" +
			"  quayctl explain dlb-unknown-key\n" +
			"  quayctl explain --catalog=hcloud health check",
		RunE: func(cmd *cobra.Command, args []string) error {
			problems := append(flags.OneOf("output", o.output, explainOutputs), o.Load()...)
			if len(problems) > 0 {
				return command.Usagef("%s", strings.Join(problems, "; "))
			}
			if o.Names == nil {
				o.Names = o.Library.Names()
			}
			return o.run(cmd.OutOrStdout(), args)
		},
		ValidArgsFunction: func(
			_ *cobra.Command, args []string, toComplete string,
		) ([]string, cobra.ShellCompDirective) {
			return o.complete(args, toComplete), cobra.ShellCompDirectiveNoFileComp
		},
	}
	o.AddFlags(cmd, "`names` of the catalogs to search; if empty, all of them")
	cmd.Flags().StringVarP(&o.output, "output", "o", flags.Text, "output format: "+flags.OrList(explainOutputs))
	flags.CompleteWith(cmd, "output", explainOutputs)
	return cmd
}

// complete suggests keys of the selected catalogs and IDs of findings for the first argument, each once.
func (o *explainOptions) complete(args []string, prefix string) []string {
	if len(args) > 0 {
		return nil
	}
	if problems := o.Load(); len(problems) > 0 {
		return nil
	}
	catalogs := o.Names
	if catalogs == nil {
		catalogs = o.Library.Names()
	}
	var words []string
	for _, e := range reference.Search(o.Library, catalogs, nil) {
		words = append(words, e.Key)
		if _, name, cut := strings.Cut(e.Key, "/"); cut && prefix != "" {
			words = append(words, name) // which is searched for
		}
	}
	for _, f := range reference.Findings() {
		words = append(words, f.ID)
	}
	words = slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, prefix) })
	slices.Sort(words)
	return slices.Compact(words)
}

func (o *explainOptions) run(w io.Writer, args []string) error {
	if len(args) == 0 {
		return o.list(w)
	}
	if len(args) == 1 {
		if f, found := reference.FindFinding(args[0]); found {
			return o.finding(w, f)
		}
		if exact := reference.Find(o.Library, o.Names, args[0]); len(exact) > 0 {
			return o.explain(w, exact)
		}
	}
	found := reference.Search(o.Library, o.Names, args)
	switch len(found) {
	case 0:
		return fmt.Errorf("no annotation or finding matches %q%s", strings.Join(args, " "), o.suggestion(args))
	case 1:
		return o.explain(w, found)
	}
	return o.overview(w, found)
}

// suggestion returns the end of the error about an argument that is neither a key nor a finding.
func (o *explainOptions) suggestion(args []string) string {
	if len(args) == 1 {
		if nearest := reference.Nearest(o.Library, o.Names, args[0]); nearest != "" {
			return fmt.Sprintf("; did you mean %q?", nearest)
		}
	}
	return ""
}

func (o *explainOptions) finding(w io.Writer, f reference.Finding) error {
	if o.output == flags.JSON {
		return report.Encode(w, map[string]any{"findings": []reference.Finding{f}})
	}
	_, err := io.WriteString(w, f.Text())
	return err
}

// explain prints everything about one key, for each catalog that contains it.
func (o *explainOptions) explain(w io.Writer, entries []reference.Entry) error {
	if o.output == flags.JSON {
		return o.json(w, entries)
	}
	var texts, catalogs []string
	for _, e := range entries {
		texts, catalogs = append(texts, e.Text()), append(catalogs, e.Catalog)
	}
	if len(entries) > 1 {
		fmt.Fprintf(w, "%d catalogs contain this key: %s. Use --catalog to select one.\n\n", len(entries),
			strings.Join(catalogs, ", "))
	}
	_, err := io.WriteString(w, strings.Join(texts, "\n"))
	return err
}

// overview prints one line per key.
func (o *explainOptions) overview(w io.Writer, entries []reference.Entry) error {
	if o.output == flags.JSON {
		return o.json(w, entries)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		help, _, _ := strings.Cut(e.Help, ". ")
		fmt.Fprintf(table, "%s\t%s\t%s\n", e.Catalog, e.Key, strings.TrimSuffix(help, "."))
	}
	return table.Flush()
}

func (o *explainOptions) json(w io.Writer, entries []reference.Entry) error {
	return report.Encode(w, map[string]any{"annotations": entries})
}

// list prints the catalogs.
func (o *explainOptions) list(w io.Writer) error {
	catalogs := reference.Catalogs(o.Library, o.Names)
	if o.output == flags.JSON {
		return report.Encode(w, map[string]any{"catalogs": catalogs})
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CATALOG\tCLOUD\tKEYS\tSOURCE")
	for _, c := range catalogs {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", c.Name, c.Title, c.Keys, c.From)
	}
	return table.Flush()
}
