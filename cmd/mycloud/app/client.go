package app

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/version"
)

// clientOptions say which cloud to speak to.
type clientOptions struct{ endpoint, tokenFile string }

func (o *clientOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.endpoint, "endpoint", "", "the API's scheme, host and port; wins over "+endpointVariable)
	f.StringVar(&o.tokenFile, "token-file", "", "file with the token; wins over "+tokenVariable)
}

func (o *clientOptions) client() (*cloudapi.Client, error) {
	endpoint := o.endpoint
	if endpoint == "" {
		endpoint = os.Getenv(endpointVariable)
	}
	if endpoint == "" {
		return nil, fmt.Errorf("no cloud to speak to: set --endpoint or %s", endpointVariable)
	}
	token := cloudapi.StaticToken(os.Getenv(tokenVariable))
	switch {
	case o.tokenFile != "":
		token = cloudapi.TokenFile(o.tokenFile)
	case os.Getenv(tokenVariable) == "":
		return nil, fmt.Errorf("no token: set --token-file or %s", tokenVariable)
	}
	return cloudapi.New(cloudapi.Options{Endpoint: endpoint, Token: token, UserAgent: "mycloud/" + version.Version()})
}

// newInstanceCommands are what people do to instances.
func newInstanceCommands() []*cobra.Command {
	return []*cobra.Command{
		newInstanceCommand("delete", "Delete an instance; its tombstone stays for some days", (*cloudapi.Client).DeleteInstance),
		newInstanceCommand("start", "Start an instance", (*cloudapi.Client).StartInstance),
		newInstanceCommand("stop", "Stop an instance", (*cloudapi.Client).StopInstance),
	}
}

// instanceWrite is a method of the client.
type instanceWrite func(c *cloudapi.Client, ctx context.Context, id string, o cloudapi.WriteOptions) (*cloudv1.Instance, error)

func newInstanceCommand(verb, short string, do instanceWrite) *cobra.Command {
	var o clientOptions
	cmd := &cobra.Command{
		Use:     verb + " instance ID",
		Short:   short,
		Example: "  mycloud " + verb + " instance i-node-1",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] != "instance" {
				return command.Usagef("what to %s: say instance ID", verb)
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

// explain makes the cloud's answer a line for people.
func explain(err error) error {
	var e *cloudapi.Error
	if !errors.As(err, &e) || e.Problem == nil {
		return err
	}
	if e.Problem.Code == cloudv1.CodeUnauthenticated {
		return fmt.Errorf("the cloud does not take the token: set --token-file or %s to the one it was started with", tokenVariable)
	}
	return fmt.Errorf("%s (%s)", e.Problem.Detail, e.Problem.Code)
}
