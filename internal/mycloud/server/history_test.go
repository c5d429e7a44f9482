package server_test

import (
	"errors"
	"strings"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	etcdtest "quaymaster.dev/test/harness/env/etcd"
)

// numberOf returns the number of a revision of the cloud.
func numberOf(revision string) string {
	number, _, _ := strings.Cut(revision, ".")
	return number
}

// TestRestoredState: a cloud that was restored from a backup uses the numbers of revisions again. What clients know of the
// lost state does not count as knowledge of the restored one, not even when its numbers have caught up.
func TestRestoredState(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	revision := func() string { return must[*cloudv1.Meta](t)(c.client.Meta(ctx)).Revision }
	groups := func(since string) (*cloudv1.List[cloudv1.NodeGroup], error) {
		return c.client.ListNodeGroups(ctx, cloudapi.ListOptions{IfNoneMatch: since})
	}
	create := func(name string) {
		t.Helper()
		must[*cloudv1.NodeGroup](t)(c.client.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: name}, cloudapi.WriteOptions{}))
	}
	restart := func(dir string) {
		c.stop()
		c = newCloud(t, withDir(dir))
	}
	edge := c.register("edge-1").ID
	create("before")
	kept := revision()

	c.stop()
	backup := t.TempDir()
	etcdtest.CopyState(t, c.dir, backup)
	restart(c.dir)
	diff(t, "revision after a restart", kept, revision())
	create("lost")
	lost := revision()
	c.beat(edge, cloudv1.Heartbeat{AppliedRevision: lost})

	restart(backup)
	for _, name := range []string{"", "one", "two"} { // the second one has the number of the lost revision
		if name != "" {
			create(name)
		}
		if _, err := c.client.Changes(ctx, lost, nil, 0); !cloudapi.HasCode(err, cloudv1.CodePageTokenExpired) {
			t.Errorf("revision %s after %s: error %v", lost, revision(), err)
		}
		if _, err := groups(lost); err != nil {
			t.Errorf("a list, if there is another than at %s, after %s: error %v", lost, revision(), err)
		}
		c.beat(edge, cloudv1.Heartbeat{AppliedRevision: lost})
		read := must[*cloudv1.Edge](t)(c.client.Edge(ctx, edge))
		diff(t, "applied revision of the lost state", "0", read.AppliedRevision)
	}
	diff(t, "changes since the backup", 2, len(c.changes(kept, cloudv1.KindNodeGroup).Items))
	now := revision()
	c.beat(edge, cloudv1.Heartbeat{AppliedRevision: now})
	diff(t, "applied revision", numberOf(now), must[*cloudv1.Edge](t)(c.client.Edge(ctx, edge)).AppliedRevision)
	restart(c.dir)
	if _, err := groups(now); !errors.Is(err, cloudapi.ErrNotModified) {
		t.Errorf("a list that has not changed since before a restart: error %v", err)
	}
}
