package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

func newCreateTokenCommand() *cobra.Command {
	var o clientOptions
	var spec cloudv1.TokenSpec
	var life time.Duration
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Create a token for callers of the API",
		Long: "Creates a token and prints its secret, which callers send. The cloud stores only its hash: the secret is not shown\n" +
			"again. mycloud delete token revokes it at once. Roles:\n" +
			"  read   reads all objects\n" +
			"  write  reads, and writes the objects of clusters and users: for controllers\n" +
			"  edge   registers edges; with --edge, only the one with that name\n" +
			"  admin  may do everything except what only edges do",
		Example: "  mycloud create token cluster-1 --role write --expires-in 8760h > token\n" +
			"  mycloud create token edge-1 --role edge --edge edge-1 > edge-token",
		Args: oneArgument("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if life < 0 {
				return command.Usagef("--expires-in %s: must not be negative", life)
			}
			until := "does not expire"
			if life > 0 {
				at := time.Now().Add(life).UTC().Truncate(time.Second)
				spec.ExpiresAt, until = &at, "expires at "+at.Format(time.RFC3339)
			}
			spec.Name = args[0]
			return o.call(func(c *cloudapi.Client) error {
				created, err := c.CreateToken(cmd.Context(), spec, cloudapi.WriteOptions{})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.ErrOrStderr(), "token %s %s; its secret is not shown again:\n", created.ID, until)
				// The output is what a file for --token-file has.
				_, printed := fmt.Fprintln(cmd.OutOrStdout(), created.Secret)
				return errors.Join(err, printed)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&spec.Role, "role", "", "role of the token: read, write, edge or admin (required)")
	f.StringVar(&spec.Edge, "edge", "", "name of the only edge that may use the token; empty for a token that edges share")
	f.DurationVar(&life, "expires-in", 0, "how long the token is valid, such as 720h; 0 means until it is deleted")
	f.StringToStringVar(&spec.Tags, "tag", nil, "tag of the token, such as team=shop; may be repeated")
	o.addFlags(f)
	// This fails only for flags that do not exist.
	_ = cmd.MarkFlagRequired("role")
	return cmd
}
