package app

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/version"
)

// clientOptions holds the flags that select the cloud.
type clientOptions struct {
	endpoint, tokenFile string
	insecure            bool
	tls                 cloudapi.TLSFiles
}

func (o *clientOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.endpoint, "endpoint", "", "URL of the API: scheme, host and port; overrides "+endpointVariable)
	f.StringVar(&o.tokenFile, "token-file", "", "file with the bearer token; overrides "+tokenVariable)
	f.BoolVar(&o.insecure, "allow-insecure-http", false,
		"send the token in the clear to an http endpoint that is not local")
	f.StringVar(&o.tls.CA, "ca-file", "",
		"file with the authorities of the API's certificate; empty for those of the system")
	f.StringVar(&o.tls.Cert, "client-cert-file", "", "file with the client certificate; requires --client-key-file")
	f.StringVar(&o.tls.Key, "client-key-file", "", "file with the key of the client certificate")
}

func (o *clientOptions) client() (*cloudapi.Client, error) {
	endpoint := o.endpoint
	if endpoint == "" {
		endpoint = os.Getenv(endpointVariable)
	}
	if endpoint == "" {
		return nil, fmt.Errorf("endpoint is required; set --endpoint or %s", endpointVariable)
	}
	token := cloudapi.StaticToken(os.Getenv(tokenVariable))
	switch {
	case o.tokenFile != "":
		token = cloudapi.TokenFile(o.tokenFile)
	case os.Getenv(tokenVariable) == "":
		return nil, fmt.Errorf("token is required; set --token-file or %s", tokenVariable)
	}
	client, err := cloudapi.New(cloudapi.Options{
		Endpoint: endpoint, AllowInsecureHTTP: o.insecure, Token: token, TLS: o.tls,
		UserAgent: "mycloud/" + version.Version(),
	})
	if errors.Is(err, cloudapi.ErrInsecure) {
		return nil, fmt.Errorf("%w; use https, or set --allow-insecure-http", err)
	}
	return client, err
}

// newInstanceCommands returns the commands that change instances.
func newInstanceCommands() []*cobra.Command {
	return []*cobra.Command{
		newCreateCommand(),
		newInstanceCommand(
			"delete", "Delete an instance; its tombstone is kept for some days", (*cloudapi.Client).DeleteInstance,
		),
		newInstanceCommand("start", "Start an instance", (*cloudapi.Client).StartInstance),
		newInstanceCommand("stop", "Stop an instance", (*cloudapi.Client).StopInstance),
	}
}

// instanceWrite is a method of the client.
type instanceWrite func(
	c *cloudapi.Client, ctx context.Context, id string, o cloudapi.WriteOptions,
) (*cloudv1.Instance, error)

func newInstanceCommand(verb, short string, do instanceWrite) *cobra.Command {
	var o clientOptions
	cmd := &cobra.Command{
		Use:     verb + " instance ID",
		Short:   short,
		Example: "  mycloud " + verb + " instance i-node-1",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] != "instance" {
				return command.Usagef("requires the arguments \"instance ID\"")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.client()
			if err != nil {
				return err
			}
			i, err := do(c, cmd.Context(), args[1], cloudapi.WriteOptions{})
			if err != nil {
				return explain(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "instance %s is %s\n", i.ID, i.State)
			return err
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// newCreateCommand returns the command that creates instances.
func newCreateCommand() *cobra.Command {
	var o clientOptions
	var spec cloudv1.InstanceSpec
	var addresses []string
	cmd := &cobra.Command{
		Use:   "create instance HOSTNAME",
		Short: "Create and start an instance",
		Long: "Creates and starts an instance. The hostname may be that of a deleted instance, such as one whose machine was\n" +
			"rebuilt; the new instance has another id.",
		Example: "  mycloud create instance node-5 --type m1.medium --zone eu-1a --address 10.0.0.15",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] != "instance" {
				return command.Usagef("requires the arguments \"instance HOSTNAME\"")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			spec.Hostname = args[1]
			for _, a := range addresses {
				ip, err := netip.ParseAddr(a)
				if err != nil {
					return command.Usagef("--address %s: must be an IP address", a)
				}
				family := cloudv1.FamilyIPv6
				if ip.Is4() {
					family = cloudv1.FamilyIPv4
				}
				spec.Addresses = append(
					spec.Addresses, cloudv1.InstanceAddress{Type: cloudv1.AddressInternal, Family: family, Address: a},
				)
			}
			c, err := o.client()
			if err != nil {
				return err
			}
			i, err := c.CreateInstance(cmd.Context(), spec, cloudapi.WriteOptions{})
			if err != nil {
				return explain(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "instance %s is %s\n", i.ID, i.State)
			return err
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

// explain returns a problem of the cloud as one line for the user.
func explain(err error) error {
	var e *cloudapi.Error
	if !errors.As(err, &e) || e.Problem == nil {
		return err
	}
	if e.Problem.Code == cloudv1.CodeUnauthenticated {
		return fmt.Errorf("the cloud rejected the token; set --token-file or %s to the token of mycloud serve", tokenVariable)
	}
	return fmt.Errorf("%s (%s)", e.Problem.Detail, e.Problem.Code)
}
