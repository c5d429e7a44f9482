package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// newChangeCommands returns the commands that change objects of the cloud.
func newChangeCommands() []*cobra.Command {
	return []*cobra.Command{
		command.Group(&cobra.Command{Use: "create", Short: "Create an object of the cloud"},
			newCreateInstanceCommand(), newCreateCertificateCommand(), newCreateTokenCommand()),
		command.Group(&cobra.Command{Use: "delete", Short: "Delete an object of the cloud"},
			newInstanceCommand(
				"delete", "Delete an instance; its tombstone is kept for some days", (*cloudapi.Client).DeleteInstance,
			),
			newDeleteCommand("certificate", "Delete a certificate that no listener names", (*cloudapi.Client).DeleteCertificate),
			newDeleteCommand("edge", "Delete an edge that no longer exists", (*cloudapi.Client).DeleteEdge),
			newDeleteCommand("token", "Revoke a token", (*cloudapi.Client).DeleteToken)),
		command.Group(&cobra.Command{Use: "start", Short: "Start an object of the cloud"},
			newInstanceCommand("start", "Start an instance", (*cloudapi.Client).StartInstance)),
		command.Group(&cobra.Command{Use: "stop", Short: "Stop an object of the cloud"},
			newInstanceCommand("stop", "Stop an instance", (*cloudapi.Client).StopInstance)),
		command.Group(&cobra.Command{Use: "drain", Short: "Take an object of the cloud out of use"}, newDrainCommand()),
	}
}

// oneArgument demands one argument.
func oneArgument(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return command.Usagef("requires the argument %s", name)
		}
		return nil
	}
}

// newWriteCommand returns a command that writes to the object with an ID, and prints what do returns.
func newWriteCommand(
	kind, short string, do func(ctx context.Context, c *cloudapi.Client, id string) (printed string, err error),
) *cobra.Command {
	var o clientOptions
	cmd := &cobra.Command{
		Use:   kind + " ID",
		Short: short,
		Args:  oneArgument("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.call(func(c *cloudapi.Client) error {
				printed, err := do(cmd.Context(), c, args[0])
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), printed)
				return err
			})
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func newDeleteCommand(
	kind, short string, do func(c *cloudapi.Client, ctx context.Context, id string, o cloudapi.WriteOptions) error,
) *cobra.Command {
	return newWriteCommand(kind, short, func(ctx context.Context, c *cloudapi.Client, id string) (string, error) {
		return kind + " " + id + " is deleted", do(c, ctx, id, cloudapi.WriteOptions{})
	})
}

func newCreateCertificateCommand() *cobra.Command {
	var o clientOptions
	var spec cloudv1.CertificateSpec
	var chain, key string
	cmd := &cobra.Command{
		Use:   "certificate NAME",
		Short: "Create a certificate for https listeners from PEM files",
		Long: "Creates a certificate for https listeners. The key is encrypted in the cloud, and only edges can read it.\n" +
			"The id that is printed is what listeners and annotations name.",
		Example: "  mycloud create certificate shop --cert tls.crt --key tls.key",
		Args:    oneArgument("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			chainPEM, err := os.ReadFile(chain)
			if err != nil {
				return fmt.Errorf("--cert: %w", err)
			}
			keyPEM, err := os.ReadFile(key)
			if err != nil {
				return fmt.Errorf("--key: %w", err)
			}
			spec.Name, spec.Chain, spec.Key = args[0], string(chainPEM), string(keyPEM)
			return o.call(func(c *cloudapi.Client) error {
				created, err := c.CreateCertificate(cmd.Context(), spec, cloudapi.WriteOptions{})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "certificate %s is valid until %s\n",
					created.ID, created.NotAfter.UTC().Format(time.RFC3339))
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&chain, "cert", "", "PEM file with the certificate, followed by its intermediate certificates (required)")
	f.StringVar(&key, "key", "", "PEM file with the private key (required)")
	f.StringToStringVar(&spec.Tags, "tag", nil, "tag of the certificate, such as team=shop; may be repeated")
	o.addFlags(f)
	// This fails only for flags that do not exist.
	_ = errors.Join(cmd.MarkFlagRequired("cert"), cmd.MarkFlagRequired("key"))
	return cmd
}

func newDrainCommand() *cobra.Command {
	var end bool
	cmd := newWriteCommand("edge", "Drain an edge: its machine can be stopped when no traffic arrives any more",
		func(ctx context.Context, c *cloudapi.Client, id string) (string, error) {
			drain := !end
			e, err := c.PatchEdge(ctx, id, cloudv1.EdgePatch{Draining: &drain}, cloudapi.WriteOptions{})
			if err != nil {
				return "", err
			}
			return "edge " + e.ID + " is " + e.State, nil
		})
	cmd.Flags().BoolVar(&end, "end", false, "end the drain: the edge carries traffic again")
	return cmd
}
