package app

import (
	"context"

	"github.com/spf13/cobra"

	"quaymaster.dev/cmd/mycloud/app/edge"
)

// newEdgeCommands returns the command that runs an edge, which needs the Linux kernel.
func newEdgeCommands() []*cobra.Command {
	o := &clientOptions{variable: edgeTokenVariable}
	return []*cobra.Command{edge.NewCommand(edge.Cloud{
		AddFlags: o.addFlags, TokenVariable: edgeTokenVariable, Endpoints: func() []string { return o.endpoints },
		CloudID: o.id, Identify: func(identify func(context.Context) error) { o.identify = identify },
		Client: o.client, ClientWith: o.clientWith, ServeMetrics: serveMetrics,
	})}
}
