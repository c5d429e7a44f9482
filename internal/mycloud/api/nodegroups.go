package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/balancer"
	"quaymaster.dev/internal/mycloud/store"
)

// CreateNodeGroupParams holds the parameters of create-node-group.
type CreateNodeGroupParams struct {
	PostParams
	Body cloudv1.NodeGroupSpec
}

// Resolve validates what the schema cannot express.
func (p *CreateNodeGroupParams) Resolve(huma.Context) []error { return checkNodeGroup(&p.Body) }

// UpdateNodeGroupParams holds the parameters of update-node-group.
type UpdateNodeGroupParams struct {
	DeleteParams
	Body cloudv1.NodeGroupSpec
}

// Resolve validates what the schema cannot express.
func (p *UpdateNodeGroupParams) Resolve(huma.Context) []error { return checkNodeGroup(&p.Body) }

// PatchMembersParams holds the parameters of patch-members.
type PatchMembersParams struct {
	DeleteParams
	Body cloudv1.MembersPatch
}

// Resolve validates what the schema cannot express.
func (p *PatchMembersParams) Resolve(huma.Context) []error {
	problems := validateMembers("/upsert", p.Body.Upsert)
	for i, key := range p.Body.Remove {
		if slices.ContainsFunc(p.Body.Upsert, func(m cloudv1.GroupMember) bool { return m.Key == key }) {
			at := fmt.Sprintf("/remove/%d", i)
			problems = append(problems, cloudv1.ProblemField{Pointer: at, Detail: "must not also be in upsert"})
		}
	}
	if n := len(p.Body.Upsert) + len(p.Body.Remove); n > membersMax {
		detail := fmt.Sprintf("must change at most %d members, not %d", membersMax, n)
		problems = append(problems, cloudv1.ProblemField{Detail: detail})
	}
	return failure.Fields(problems)
}

// groupAnswer is the response to a write of a node group.
type groupAnswer = Answer[cloudv1.NodeGroup]

func checkNodeGroup(s *cloudv1.NodeGroupSpec) []error {
	return failure.Fields(append(validateTags(s.Tags), validateMembers("/members", s.Members)...))
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

func (a *API) registerNodeGroups() {
	groups := view[cloudv1.NodeGroup]{kind: store.NodeGroups}
	const tag, path = "node-groups", "/v1/node-groups"
	registerList(a, operation{"list-node-groups", tag, "Node groups"}, path, groups)
	registerGet(a, operation{"get-node-group", tag, "A node group"}, path+"/{id}", groups)
	registerWrite(a, operation{"create-node-group", tag, "Creates a node group"},
		http.MethodPost, path, []int{http.StatusCreated}, a.createNodeGroup,
		means("Creates a set of members that the pools of load balancers can refer to."))
	ok := []int{http.StatusOK}
	registerWrite(a, operation{"update-node-group", tag, "Replaces a node group"},
		http.MethodPut, path+"/{id}", ok, func(_ context.Context, p *UpdateNodeGroupParams) (*groupAnswer, error) {
			return a.editNodeGroup(p.DeleteParams, groupAddresses("/members", p.Body.Members), func(g *cloudv1.NodeGroup) {
				g.Name, g.Tags, g.Members = p.Body.Name, p.Body.Tags, p.Body.Members
			})
		}, demandsRevision, means("Replaces name, tags and members. Members that the body does not have are removed."))
	registerWrite(a, operation{"patch-members", tag, "Changes members of a node group"},
		http.MethodPatch, path+"/{id}/members", ok, func(_ context.Context, p *PatchMembersParams) (*groupAnswer, error) {
			return a.editNodeGroup(p.DeleteParams, groupAddresses("/upsert", p.Body.Upsert), func(g *cloudv1.NodeGroup) {
				patchMembers(g, p.Body)
			})
		}, demandsRevision, means("The change is atomic and reaches every pool that refers to the group. Other members are kept."))
	registerWrite(a, operation{"delete-node-group", tag, "Deletes a node group"},
		http.MethodDelete, path+"/{id}", ok, a.deleteNodeGroup, demandsRevision,
		means("It fails while a pool refers to the node group."))
}

func (a *API) createNodeGroup(_ context.Context, p *CreateNodeGroupParams) (*groupAnswer, error) {
	return post(a, p.PostParams, "create node group", p.Body, func(tx *store.Tx) (*groupAnswer, error) {
		g := &cloudv1.NodeGroup{Object: cloudv1.Object{Name: p.Body.Name, Tags: p.Body.Tags}, Members: p.Body.Members}
		if err := p.checkTags(store.NodeGroups.Name, &g.Object); err != nil {
			return nil, err
		}
		if err := nameFree(tx, store.NodeGroups, g.Name); err != nil {
			return nil, err
		}
		if err := quota(a, tx, store.NodeGroups, nil); err != nil {
			return nil, err
		}
		problems, err := a.checkMembers(tx, nil, groupAddresses("/members", g.Members))
		if err != nil {
			return nil, err
		}
		if len(problems) > 0 {
			return nil, failure.Invalid(problems)
		}
		arrangeMembers(g)
		return create(tx, p.DryRun, "ng-", store.NodeGroups, g)
	})
}

// nameFree checks that no object of a kind whose names are unique has the name.
func nameFree[T any](tx *store.Tx, k store.Kind[T], name string) error {
	for _, id := range k.Find(tx, store.NameTerm(name)) {
		return failure.New(http.StatusConflict, cloudv1.CodeNameTaken, "name %q is taken by %s %s",
			name, strings.ReplaceAll(k.Name, "-", " "), id).On(k.Name, id)
	}
	return nil
}

// editNodeGroup changes a node group. The members in the request have the addresses.
func (a *API) editNodeGroup(
	p DeleteParams, addresses []memberAddress, edit func(*cloudv1.NodeGroup),
) (*groupAnswer, error) {
	return change(a, p.WriteParams, func(tx *store.Tx) (*groupAnswer, error) {
		g, err := demanded(tx, store.NodeGroups, p)
		if err != nil {
			return nil, err
		}
		problems, err := a.checkMembers(tx, groupAddresses("", g.Members), addresses)
		if err != nil {
			return nil, err
		}
		if len(problems) > 0 {
			return nil, failure.Invalid(problems)
		}
		was := g.Name
		edit(g)
		if g.Name != was {
			if err := nameFree(tx, store.NodeGroups, g.Name); err != nil {
				return nil, err
			}
		}
		arrangeMembers(g)
		if _, err := store.NodeGroups.Put(tx, g); err != nil {
			return nil, err
		}
		return done(http.StatusOK, store.NodeGroups, g), nil
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

func (a *API) deleteNodeGroup(_ context.Context, p *DeleteParams) (*groupAnswer, error) {
	return change(a, p.WriteParams, func(tx *store.Tx) (*groupAnswer, error) {
		g, err := demanded(tx, store.NodeGroups, *p)
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
		return done(http.StatusOK, store.NodeGroups, g), nil
	})
}
