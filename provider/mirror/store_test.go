package mirror

import (
	"context"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// TestRestoredCloud: a cloud that was restored from a backup counts from an earlier revision again. Its objects replace
// those of the lost state, although their revisions are lower.
func TestRestoredCloud(t *testing.T) {
	group := func(id, revision, name string) cloudv1.NodeGroup {
		return cloudv1.NodeGroup{Object: cloudv1.Object{ID: id, Revision: revision, Name: name}}
	}
	list := &cloudv1.List[cloudv1.NodeGroup]{}
	s := newStore(&Store[cloudv1.NodeGroup]{
		kind: cloudv1.KindNodeGroup, meta: (*cloudv1.NodeGroup).Metadata,
		holds: func(*cloudv1.NodeGroup) bool { return true }, index: func(g *cloudv1.NodeGroup) string { return g.Name },
		within: func(context.Context) bool { return true },
		list:   func(context.Context, string) (*cloudv1.List[cloudv1.NodeGroup], error) { return list, nil },
	})
	read := func(revision string, items ...cloudv1.NodeGroup) {
		t.Helper()
		*list = cloudv1.List[cloudv1.NodeGroup]{Revision: revision, Items: items}
		if err := s.read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check := func(id, want string) {
		t.Helper()
		got := ""
		if g := s.Get(id); g != nil {
			got = g.Name
		}
		if got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	read("9.aaaaaaaa", group("a", "8", "lost"), group("b", "9", "lost"), group("c", "7", "lost"))
	read("5.bbbbbbbb", group("a", "4", "late"))
	check("a", "lost")
	check("b", "lost")

	s.doubt()
	if s.Synced() {
		t.Error("the store is synced although the cloud may have lost its objects")
	}
	written := group("c", "6", "written")
	s.Put(t.Context(), &written)
	read("5.bbbbbbbb", group("a", "4", "restored"), group("c", "5", "restored"))
	check("a", "restored")
	check("b", "")
	check("c", "written")
}
