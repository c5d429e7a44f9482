package app

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// instanceWrite is a method of the client.
type instanceWrite func(
	c *cloudapi.Client, ctx context.Context, id string, o cloudapi.WriteOptions,
) (*cloudv1.Instance, error)

func newInstanceCommand(verb, short string, do instanceWrite) *cobra.Command {
	cmd := newWriteCommand("instance", short, func(ctx context.Context, c *cloudapi.Client, id string) (string, error) {
		return instanceState(do(c, ctx, id, cloudapi.WriteOptions{}))
	})
	cmd.Example = "  mycloud " + verb + " instance i-node-1"
	return cmd
}

// instanceState returns what is printed of an instance.
func instanceState(i *cloudv1.Instance, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("instance %s is %s", i.ID, i.State), nil
}

// newCreateInstanceCommand returns the command that creates instances.
func newCreateInstanceCommand() *cobra.Command {
	var o clientOptions
	var spec cloudv1.InstanceSpec
	var addresses []string
	cmd := &cobra.Command{
		Use:   "instance HOSTNAME",
		Short: "Create and start an instance",
		Long: "Creates and starts an instance. The hostname may be that of a deleted instance, such as one whose machine was\n" +
			"rebuilt; the new instance has a new id.",
		Example: "  mycloud create instance node-5 --type m1.medium --zone eu-1a --address 10.0.0.15",
		Args:    oneArgument("HOSTNAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec.Hostname = args[0]
			for _, a := range addresses {
				ip, err := netip.ParseAddr(a)
				if err != nil {
					return command.Usagef("--address %s: must be an IP address", a)
				}
				spec.Addresses = append(spec.Addresses,
					cloudv1.InstanceAddress{Type: cloudv1.AddressInternal, Family: cloudv1.FamilyOf(ip), Address: a})
			}
			return o.call(func(c *cloudapi.Client) error {
				printed, err := instanceState(c.CreateInstance(cmd.Context(), spec, cloudapi.WriteOptions{}))
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), printed)
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&spec.Type, "type", "", "instance type (required)")
	f.StringVar(&spec.Zone, "zone", "", "zone (required)")
	f.StringSliceVar(&addresses, "address", nil, "internal IP address; may be repeated")
	f.StringToStringVar(&spec.Tags, "tag", nil, "tag of the instance, such as team=edge; may be repeated")
	o.addFlags(f)
	// This fails only for flags that do not exist.
	_ = errors.Join(cmd.MarkFlagRequired("type"), cmd.MarkFlagRequired("zone"))
	return cmd
}
