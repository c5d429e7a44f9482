// Package nodegroup manages the groups of ingress nodes in the cloud.
package nodegroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
)

// batch is the number of members that one request may change.
const batch = 1000

// groupsFlow is the flow of unused groups and of new ones that several namespaces ask for. It is the name of no namespace.
const groupsFlow = "node groups"

// pageSize is the number of groups of a page.
const pageSize = 500

// Groups are this cluster's node groups in the cloud.
type Groups struct {
	cloud     *cloudapi.Client
	watch     *mirror.Watch
	cluster   *ownership.Cluster
	clusterID string

	// mark is that of the last list. Only List uses it.
	mark mirror.Mark
}

var _ ingressnode.Groups = (*Groups)(nil)

// New returns the groups of a cluster. Their names begin with clusterID. watch is that of node groups.
func New(cloud *cloudapi.Client, watch *mirror.Watch, cluster *ownership.Cluster, clusterID string) *Groups {
	return &Groups{cloud: cloud, watch: watch, cluster: cluster, clusterID: clusterID}
}

// List implements ingressnode.Groups. It needs no request if the cloud has reported no change since the last list. It
// must not be called concurrently.
func (g *Groups) List(ctx context.Context, since string) ([]ingressnode.Group, string, bool, error) {
	if since != "" && g.watch.Quiet(g.mark) {
		return nil, since, false, nil
	}
	mark := g.watch.Mark()
	tags, err := g.cluster.Tags(ctx)
	if err != nil {
		return nil, "", false, err
	}
	ctx = cloudapi.WithClass(ctx, cloudapi.Safety) // without a list, no member can leave
	list, err := g.cloud.ListNodeGroups(ctx, cloudapi.ListOptions{Tags: tags, IfNoneMatch: since, PageSize: pageSize})
	if errors.Is(err, cloudapi.ErrNotModified) {
		g.mark = mark
		return nil, since, false, nil
	}
	if err != nil {
		return nil, "", false, err
	}
	g.mark = mark
	at := map[string]int{}
	var groups []ingressnode.Group
	for i := range list.Items {
		group := fromCloud(&list.Items[i])
		if group.Name == "" {
			continue
		}
		if first, twice := at[group.Name]; twice {
			groups[first].Err = fmt.Errorf("node groups %s and %s both have the tag %s=%s; remove it from the wrong one",
				groups[first].ID, group.ID, ownership.IngressGroup, group.Name)
			continue
		}
		at[group.Name] = len(groups)
		groups = append(groups, group)
	}
	return groups, list.Revision, true, nil
}

// Create implements ingressnode.Groups. The request depends only on the group's name, so that a second creation, after
// a crash or by another leader, finds this group. Names are for human readers: group a-b of cluster c has the same name
// as group b of cluster c-a. If the name is taken, the group gets one that is unique.
func (g *Groups) Create(ctx context.Context, name, namespace string) (ingressnode.Group, error) {
	tags, err := g.cluster.Tags(ctx)
	if err != nil {
		return ingressnode.Group{}, err
	}
	plain := g.clusterID + "-" + name
	unique := ownership.UniqueName(plain, tags[ownership.ClusterUID], name)
	tags[ownership.IngressGroup] = name
	ctx = cloudapi.WithFlow(ctx, cmp.Or(namespace, groupsFlow))
	made, err := g.create(ctx, cloudv1.NodeGroupSpec{Name: plain, Tags: tags})
	if cloudapi.HasCode(err, cloudv1.CodeNameTaken) {
		made, err = g.create(ctx, cloudv1.NodeGroupSpec{Name: unique, Tags: tags})
	}
	if err != nil {
		return ingressnode.Group{}, err
	}
	return fromCloud(made), nil
}

// create creates a group of that name, or returns the group that has the name if it is ours.
func (g *Groups) create(ctx context.Context, spec cloudv1.NodeGroupSpec) (*cloudv1.NodeGroup, error) {
	identity := []string{
		cloudv1.KindNodeGroup, spec.Tags[ownership.ClusterUID], spec.Tags[ownership.IngressGroup], spec.Name,
	}
	made, err := ownership.Create(identity,
		func(key string) (*cloudv1.NodeGroup, error) {
			return g.cloud.CreateNodeGroup(ctx, spec, cloudapi.WriteOptions{IdempotencyKey: key})
		},
		func(made *cloudv1.NodeGroup) (*cloudv1.NodeGroup, error) {
			found, err := g.cloud.NodeGroup(ctx, made.ID)
			if err == nil && !ownership.Bears(found.Tags, spec.Tags) {
				err = ownership.ErrNotOurs
			}
			return found, err
		})
	if cloudapi.HasCode(err, cloudv1.CodeNameTaken) {
		return g.holder(ctx, err, spec)
	}
	return made, err
}

// holder returns the group that already has the name if it is the one to be created, otherwise the error taken.
func (g *Groups) holder(ctx context.Context, taken error, spec cloudv1.NodeGroupSpec) (*cloudv1.NodeGroup, error) {
	id := cloudapi.ResourceID(taken)
	if id == "" {
		return nil, taken
	}
	held, err := g.cloud.NodeGroup(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read the holder of the name %s: %w", spec.Name, err)
	}
	if !ownership.Bears(held.Tags, spec.Tags) {
		return nil, fmt.Errorf("name %q is taken by node group %s, which lacks the ownership tags of this group; "+
			"rename or delete it: %w", spec.Name, id, taken)
	}
	return held, nil
}

// Change implements ingressnode.Groups. Without changes it does not write.
func (g *Groups) Change(
	ctx context.Context, group ingressnode.Group, upsert []ingressnode.Member, remove []string, namespace string,
) (ingressnode.Group, error) {
	tags, err := g.cluster.Tags(ctx)
	if err != nil {
		return group, err
	}
	tags[ownership.IngressGroup] = group.Name
	if namespace != "" {
		ctx = cloudapi.WithFlow(ctx, namespace)
	}
	for len(upsert) > 0 || len(remove) > 0 {
		patch := cloudv1.MembersPatch{Upsert: toCloud(head(upsert, batch))}
		patch.Remove = head(remove, batch-len(patch.Upsert))
		changed, err := g.cloud.PatchMembers(
			ctx, group.ID, patch, cloudapi.WriteOptions{IfMatch: group.Revision, IfTags: tags},
		)
		if err != nil {
			return group, err
		}
		group = fromCloud(changed)
		upsert, remove = upsert[len(patch.Upsert):], remove[len(patch.Remove):]
	}
	return group, nil
}

// Delete implements ingressnode.Groups. The cloud refuses to delete a group that pools refer to.
func (g *Groups) Delete(ctx context.Context, group ingressnode.Group) error {
	tags, err := g.cluster.Tags(ctx)
	if err != nil {
		return err
	}
	tags[ownership.IngressGroup] = group.Name
	ctx = cloudapi.WithFlow(ctx, groupsFlow)
	err = g.cloud.DeleteNodeGroup(ctx, group.ID, cloudapi.WriteOptions{IfMatch: group.Revision, IfTags: tags})
	switch {
	case cloudapi.IsAbsent(err):
		return nil
	case cloudapi.HasCode(err, cloudv1.CodeConflict):
		return fmt.Errorf("%w: %w", ingressnode.ErrInUse, err)
	}
	return err
}

func head[T any](list []T, most int) []T { return list[:min(len(list), most)] }

func toCloud(members []ingressnode.Member) []cloudv1.GroupMember {
	var list []cloudv1.GroupMember
	for _, m := range members {
		member := cloudv1.GroupMember{
			Key: m.InstanceID, InstanceID: m.InstanceID, Weight: m.Weight, State: cloudv1.MemberActive, Zone: m.Zone,
		}
		if m.Draining {
			member.State = cloudv1.MemberDraining
		}
		for _, address := range m.Addresses {
			member.Addresses = append(member.Addresses, cloudv1.MemberAddress{Family: family(address), Address: address})
		}
		list = append(list, member)
	}
	return list
}

func family(address string) string {
	if a, err := netip.ParseAddr(address); err == nil {
		return cloudv1.FamilyOf(a.Unmap())
	}
	return cloudv1.FamilyIPv4
}

func fromCloud(group *cloudv1.NodeGroup) ingressnode.Group {
	g := ingressnode.Group{ID: group.ID, Revision: group.Revision, Name: group.Tags[ownership.IngressGroup]}
	for _, m := range group.Members {
		member := ingressnode.Member{
			InstanceID: m.Key, Zone: m.Zone, Weight: m.Weight, Draining: m.State == cloudv1.MemberDraining,
		}
		for _, address := range m.Addresses {
			member.Addresses = append(member.Addresses, address.Address)
		}
		g.Members = append(g.Members, member)
	}
	return g
}

// Configure returns the options of the controller with what the cloud config decides.
func Configure(o ingressnode.Options, cfg config.IngressNodes) ingressnode.Options {
	o.FallbackAll, o.DrainCordoned = cfg.Fallback == config.FallbackAll, cfg.DrainCordoned
	o.MaxRemovedPercent, o.MaxGroups = cfg.MaxRemovedPercentPerMinute, cfg.MaxGroups
	o.RetryAfter = cloudapi.RetryAfter
	return o
}
