package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/annotation"
)

// getOptions holds the flags of get.
type getOptions struct {
	clientOptions
	output, table  string
	tags           map[string]string
	includeDeleted bool
}

func newGetCommand() *cobra.Command {
	var o getOptions
	var names []string
	for _, r := range resources() {
		names = append(names, r.names[0])
	}
	cmd := &cobra.Command{
		Use:     "get KIND [ID]",
		Short:   "Show objects of the cloud",
		Long:    "Shows objects of the cloud. KIND is one of " + strings.Join(names, ", ") + ".",
		Example: "  mycloud get load-balancers\n  mycloud get instances i-node-1 -o yaml",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return command.Usagef("requires the arguments KIND or KIND ID; KIND must be one of %s", strings.Join(names, ", "))
			}
			if _, ok := findResource(args[0]); !ok {
				return unknownKind(args[0], names)
			}
			switch o.output {
			case "table", "json", "yaml":
				return nil
			}
			return command.Usagef("--output %q: must be table, json or yaml", o.output)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id := ""
			if len(args) == 2 {
				id = args[1]
			}
			r, _ := findResource(args[0])
			return o.run(cmd.Context(), cmd.OutOrStdout(), r, id)
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "output format: table, json or yaml")
	cmd.Flags().StringVar(&o.table, "route-table", "", "show only the routes of this table")
	cmd.Flags().StringToStringVar(&o.tags, "tag", nil, "show only objects with these tags, key=value")
	cmd.Flags().BoolVar(&o.includeDeleted, "include-deleted", false, "show tombstones, too")
	return cmd
}

// unknownKind returns the mistake in a kind, with the nearest one.
func unknownKind(given string, names []string) error {
	if nearest, near := annotation.Suggest(given, names); near {
		return command.Usagef("unknown kind %q; did you mean %q?", given, nearest)
	}
	return command.Usagef("unknown kind %q: must be one of %s", given, strings.Join(names, ", "))
}

func (o getOptions) run(ctx context.Context, out io.Writer, r resource, id string) error {
	c, err := o.client()
	if err != nil {
		return err
	}
	list := cloudapi.ListOptions{Tags: o.tags, IncludeDeleted: o.includeDeleted}
	if id != "" {
		// A tombstone is shown if the user names its id.
		list.IDs, list.IncludeDeleted = []string{id}, true
	}
	found, err := r.list(ctx, c, o.table, list)
	if err != nil {
		return explain(err)
	}
	if id != "" && len(found.rows) == 0 {
		return fmt.Errorf("no %s %q", strings.TrimSuffix(r.names[0], "s"), id)
	}
	shown := found.all
	if id != "" {
		shown = found.first
	}
	switch o.output {
	case "json":
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(shown)
	case "yaml":
		b, err := yaml.Marshal(shown)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		_, err = out.Write(b)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, strings.Join(r.columns, "\t"))
	for _, row := range found.rows {
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}
