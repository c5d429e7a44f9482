// Package nodegroups serves node groups: sets of members that the pools of many load balancers share.
package nodegroups

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/describe"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/members"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/api/write"
	"quaymaster.dev/internal/mycloud/server/balancer"
	"quaymaster.dev/internal/mycloud/server/store"
)

// createNodeGroupParams holds the parameters of create-node-group.
type createNodeGroupParams struct {
	write.PostParams
	Body cloudv1.NodeGroupSpec
}

// Resolve validates what the schema cannot express.
func (p *createNodeGroupParams) Resolve(huma.Context) []error { return checkNodeGroup(&p.Body) }

// updateNodeGroupParams holds the parameters of update-node-group.
type updateNodeGroupParams struct {
	write.ObjectParams
	Body cloudv1.NodeGroupSpec
}

// Resolve validates what the schema cannot express.
func (p *updateNodeGroupParams) Resolve(huma.Context) []error { return checkNodeGroup(&p.Body) }

// patchMembersParams holds the parameters of patch-members.
type patchMembersParams struct {
	write.ObjectParams
	Body cloudv1.MembersPatch
}

// Resolve validates what the schema cannot express.
func (p *patchMembersParams) Resolve(huma.Context) []error {
	problems := validateMembers("/upsert", p.Body.Upsert)
	for i, key := range p.Body.Remove {
		if slices.ContainsFunc(p.Body.Upsert, func(m cloudv1.GroupMember) bool { return m.Key == key }) {
			at := fmt.Sprintf("/remove/%d", i)
			problems = append(problems, cloudv1.ProblemField{Pointer: at, Detail: "must not also be in upsert"})
		}
	}
	if n := len(p.Body.Upsert) + len(p.Body.Remove); n > members.Max {
		detail := fmt.Sprintf("must change at most %d members, not %d", members.Max, n)
		problems = append(problems, cloudv1.ProblemField{Detail: detail})
	}
	return failure.Fields(problems)
}

// groupAnswer is the response to a write of a node group.
type groupAnswer = operation.Answer[cloudv1.NodeGroup]

func checkNodeGroup(s *cloudv1.NodeGroupSpec) []error {
	return failure.Fields(append(write.ValidateTags(s.Tags), validateMembers("/members", s.Members)...))
}

func validateMembers(at string, members []cloudv1.GroupMember) []cloudv1.ProblemField {
	var all []cloudv1.ProblemField
	add := func(i int, field, detail string) {
		all = append(all, cloudv1.ProblemField{Pointer: fmt.Sprintf("%s/%d%s", at, i, field), Detail: detail})
	}
	keys := map[string]bool{}
	for i, m := range members {
		if keys[m.Key] {
			add(i, "/key", fmt.Sprintf("must be unique; %q is a duplicate", m.Key))
		}
		keys[m.Key] = true
		families := map[string]bool{}
		for j, a := range m.Addresses {
			if problem := balancer.MemberProblem(a.Family, a.Address); problem != "" {
				add(i, fmt.Sprintf("/addresses/%d/address", j), problem)
			}
			if families[a.Family] {
				add(i, fmt.Sprintf("/addresses/%d/family", j), fmt.Sprintf("must be unique; %q is a duplicate", a.Family))
			}
			families[a.Family] = true
		}
	}
	return all
}

// api serves the operations.
type api struct {
	write   *write.Writer
	members members.Rules
}

// Register adds the operations of node groups, whose members must keep the rules.
func Register(r *read.Reader, w *write.Writer, rules members.Rules) {
	a := &api{write: w, members: rules}
	groups := read.View[cloudv1.NodeGroup]{Kind: store.NodeGroups}
	const tag, path = "node-groups", "/v1/node-groups"
	read.RegisterList(r, operation.New("list-node-groups", tag, "Node groups"), path, groups)
	read.RegisterObject(r, operation.New("get-node-group", tag, "A node group"), path+"/{id}", groups)
	operation.Write(r.API, operation.New("create-node-group", tag, "Creates a node group"),
		http.MethodPost, path, []int{http.StatusCreated}, a.createNodeGroup,
		describe.Means("Creates a set of members that the pools of load balancers can refer to."))
	ok := []int{http.StatusOK}
	operation.Write(r.API, operation.New("update-node-group", tag, "Replaces a node group"),
		http.MethodPut, path+"/{id}", ok, func(_ context.Context, p *updateNodeGroupParams) (*groupAnswer, error) {
			return a.editNodeGroup(p.ObjectParams, groupAddresses("/members", p.Body.Members), func(g *cloudv1.NodeGroup) {
				g.Name, g.Tags, g.Members = p.Body.Name, p.Body.Tags, p.Body.Members
			})
		}, describe.DemandsRevision, describe.Means("Replaces name, tags and members. Members that the body does not have are removed."))
	operation.Write(r.API, operation.New("patch-members", tag, "Changes members of a node group"),
		http.MethodPatch, path+"/{id}/members", ok, func(_ context.Context, p *patchMembersParams) (*groupAnswer, error) {
			return a.editNodeGroup(p.ObjectParams, groupAddresses("/upsert", p.Body.Upsert), func(g *cloudv1.NodeGroup) {
				patchMembers(g, p.Body)
			})
		}, describe.DemandsRevision, describe.Means("The change is atomic and reaches every pool that refers to the group. Other members are kept."))
	operation.Write(r.API, operation.New("delete-node-group", tag, "Deletes a node group"),
		http.MethodDelete, path+"/{id}", ok, a.deleteNodeGroup, describe.DemandsRevision,
		describe.Means("It fails while a pool refers to the node group."))
}

func (a *api) createNodeGroup(_ context.Context, p *createNodeGroupParams) (*groupAnswer, error) {
	return write.Post(a.write, p.PostParams, "create node group", p.Body, func(tx *store.Tx) (*groupAnswer, error) {
		g := &cloudv1.NodeGroup{Object: cloudv1.Object{Name: p.Body.Name, Tags: p.Body.Tags}, Members: p.Body.Members}
		if err := p.CheckTags(store.NodeGroups.Name, &g.Object); err != nil {
			return nil, err
		}
		if err := write.NameFree(tx, store.NodeGroups, g.Name); err != nil {
			return nil, err
		}
		if err := write.Quota(a.write, tx, store.NodeGroups, nil); err != nil {
			return nil, err
		}
		problems, err := a.members.Check(tx, nil, groupAddresses("/members", g.Members))
		if err != nil {
			return nil, err
		}
		if len(problems) > 0 {
			return nil, failure.Invalid(problems)
		}
		arrangeMembers(g)
		return write.Create(tx, p.DryRun, "ng-", store.NodeGroups, g)
	})
}

// editNodeGroup changes a node group. The members in the request have the addresses.
func (a *api) editNodeGroup(
	p write.ObjectParams, addresses []members.Address, edit func(*cloudv1.NodeGroup),
) (*groupAnswer, error) {
	return write.Change(a.write, p.Params, func(tx *store.Tx) (*groupAnswer, error) {
		g, err := write.Demanded(tx, store.NodeGroups, p)
		if err != nil {
			return nil, err
		}
		problems, err := a.members.Check(tx, groupAddresses("", g.Members), addresses)
		if err != nil {
			return nil, err
		}
		if len(problems) > 0 {
			return nil, failure.Invalid(problems)
		}
		was := g.Name
		edit(g)
		if g.Name != was {
			if err := write.NameFree(tx, store.NodeGroups, g.Name); err != nil {
				return nil, err
			}
		}
		arrangeMembers(g)
		if _, err := store.NodeGroups.Put(tx, g); err != nil {
			return nil, err
		}
		return write.Done(http.StatusOK, store.NodeGroups, g), nil
	})
}

func patchMembers(g *cloudv1.NodeGroup, p cloudv1.MembersPatch) {
	g.Members = slices.DeleteFunc(g.Members, func(m cloudv1.GroupMember) bool {
		return slices.Contains(p.Remove, m.Key) ||
			slices.ContainsFunc(p.Upsert, func(u cloudv1.GroupMember) bool { return u.Key == m.Key })
	})
	g.Members = append(g.Members, p.Upsert...)
}

// arrangeMembers sorts members, so that their order in a request does not matter.
func arrangeMembers(g *cloudv1.NodeGroup) {
	if g.Members == nil {
		g.Members = []cloudv1.GroupMember{}
	}
	slices.SortFunc(g.Members, func(a, b cloudv1.GroupMember) int { return strings.Compare(a.Key, b.Key) })
}

func (a *api) deleteNodeGroup(_ context.Context, p *write.ObjectParams) (*groupAnswer, error) {
	return write.Change(a.write, p.Params, func(tx *store.Tx) (*groupAnswer, error) {
		g, err := write.Demanded(tx, store.NodeGroups, *p)
		if err != nil {
			return nil, err
		}
		for _, id := range store.LoadBalancers.Find(tx, store.ReferenceTerm(store.NodeGroups.Name, g.ID)) {
			return nil, failure.New(http.StatusConflict, cloudv1.CodeConflict, "node group %s is used by pools of load balancer %s",
				g.ID, id).On(store.LoadBalancers.Name, id)
		}
		if err := store.NodeGroups.Delete(tx, g.ID); err != nil {
			return nil, err
		}
		return write.Done(http.StatusOK, store.NodeGroups, g), nil
	})
}

// groupAddresses returns the addresses of members of a node group in a list at a pointer.
func groupAddresses(at string, list []cloudv1.GroupMember) []members.Address {
	var all []members.Address
	for i := range list {
		for j, address := range list[i].Addresses {
			all = append(all, members.Address{Pointer: fmt.Sprintf("%s/%d/addresses/%d/address", at, i, j), Address: address.Address})
		}
	}
	return all
}
