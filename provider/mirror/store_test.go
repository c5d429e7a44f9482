package mirror

import (
	"context"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// groups is a store of node groups that a test lists.
type groups struct {
	*Store[cloudv1.NodeGroup]
	t    *testing.T
	list *cloudv1.List[cloudv1.NodeGroup]
}

func newGroups(t *testing.T) *groups {
	list := &cloudv1.List[cloudv1.NodeGroup]{}
	return &groups{t: t, list: list, Store: newStore(&Store[cloudv1.NodeGroup]{
		kind: cloudv1.KindNodeGroup, meta: (*cloudv1.NodeGroup).Metadata,
		holds: func(*cloudv1.NodeGroup) bool { return true }, index: func(g *cloudv1.NodeGroup) string { return g.Name },
		within: func(context.Context) bool { return true },
		list:   func(context.Context, string) (*cloudv1.List[cloudv1.NodeGroup], error) { return list, nil },
	})}
}

func group(id, revision, name string) cloudv1.NodeGroup {
	return cloudv1.NodeGroup{Object: cloudv1.Object{ID: id, Revision: revision, Name: name}}
}

// lists has the store read what the cloud lists at a revision.
func (g *groups) lists(revision string, items ...cloudv1.NodeGroup) {
	g.t.Helper()
	*g.list = cloudv1.List[cloudv1.NodeGroup]{Revision: revision, Items: items}
	if err := g.read(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
}

// check requires the name of a group; empty means that there is none.
func (g *groups) check(id, want string) {
	g.t.Helper()
	got := ""
	if found := g.Get(id); found != nil {
		got = found.Name
	}
	if got != want {
		g.t.Errorf("%s is %q, want %q", id, got, want)
	}
}

// TestRestoredCloud: a cloud that was restored from a backup counts from an earlier revision again. Its objects replace
// those of the lost state, although their revisions are lower.
func TestRestoredCloud(t *testing.T) {
	s := newGroups(t)
	s.lists("9.aaaaaaaa", group("a", "8", "lost"), group("b", "9", "lost"), group("c", "7", "lost"))
	s.lists("5.bbbbbbbb", group("a", "4", "late"))
	s.check("a", "lost")
	s.check("b", "lost")

	s.doubt()
	if s.Synced() {
		t.Error("the store is synced although the cloud may have lost its objects")
	}
	written := group("c", "6", "written")
	s.Put(t.Context(), &written)
	s.lists("5.bbbbbbbb", group("a", "4", "restored"), group("c", "5", "restored"))
	s.check("a", "restored")
	s.check("b", "")
	s.check("c", "written")
}

// TestUnknownRevision: what was read without a revision, because it could not be decoded, gives way to whatever is read later.
func TestUnknownRevision(t *testing.T) {
	s := newGroups(t)
	s.lists("5.aaaaaaaa", group("a", "", "odd"), group("b", "", "odd"))
	s.check("a", "odd")
	s.lists("7.aaaaaaaa", group("a", "6", "corrected"))
	s.check("a", "corrected")
	s.check("b", "")
}
