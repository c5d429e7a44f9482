package plan

import (
	"context"
	"fmt"
	"slices"

	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/nodegroup"
)

// groups finds the node groups that exist, and remembers those that Services ask for. The controllers sync the members
// of a group before a load balancer refers to it, which changes nothing of what they write to the load balancer.
type groups struct {
	cloud *nodegroup.Groups

	known map[string]ingressnode.Group
	names []string
}

var _ dlb.NodeGroups = (*groups)(nil)

// ID implements dlb.NodeGroups.
func (g *groups) ID(ctx context.Context, name string) (string, error) {
	if !slices.Contains(g.names, name) {
		g.names = append(g.names, name)
	}
	if g.known == nil {
		list, _, _, err := g.cloud.List(context.WithoutCancel(ctx), "")
		if err != nil {
			return "", fmt.Errorf("list node groups: %w", err)
		}
		g.known = map[string]ingressnode.Group{}
		for _, group := range list {
			g.known[group.Name] = group
		}
	}
	group, found := g.known[name]
	switch {
	case !found:
		return "", fmt.Errorf("node group %q does not exist yet; it is created first", name)
	case group.Err != nil:
		return "", group.Err
	}
	return group.ID, nil
}
