package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	cloudtest "quaymaster.dev/test/harness/cloud"
	etcdtest "quaymaster.dev/test/harness/env/etcd"
)

// rawState returns the state of a cloud that is stopped as it is on the disk.
func rawState(t *testing.T, dir string) []byte {
	t.Helper()
	if !cloudtest.InEtcd() {
		return must[[]byte](t)(os.ReadFile(filepath.Join(dir, "state.db")))
	}
	return fmt.Append(nil, etcdtest.StateOf(t, dir))
}

// TestEdgesOfOtherServers: all servers know what edges report to one of them, whichever leads.
func TestEdgesOfOtherServers(t *testing.T) {
	if !cloudtest.InEtcd() {
		t.Skip("the server has its state alone")
	}
	const interval = 300 * time.Millisecond
	often := func(o *server.Options) { o.HeartbeatInterval = interval }
	first := newCloud(t, often)
	dir := filepath.Join(t.TempDir(), "second")
	if err := os.CopyFS(dir, os.DirFS(first.dir)); err != nil {
		t.Fatal(err)
	}
	second := newCloud(t, often, withDir(dir), func(o *server.Options) { o.Store = cloudtest.StoreOf(first.dir) })
	ctx := t.Context()
	for i, c := range []*cloud{first, second} {
		other := []*cloud{second, first}[i]
		edge := c.register(fmt.Sprint("edge-", i)).ID
		read := func() *cloudv1.Edge {
			return must[*cloudv1.Edge](t)(other.client.Edge(ctx, edge))
		}
		eventually(t, "the edge counts as one that follows changes", func() bool {
			c.beat(edge, cloudv1.Heartbeat{})
			return read().HeartbeatAt != nil
		})
		lb, job, err := other.client.CreateLoadBalancer(ctx, tree(fmt.Sprint("lb-", i)), cloudapi.WriteOptions{})
		if err != nil || job == "" {
			t.Fatalf("create a load balancer: job %q, %v", job, err)
		}
		diff(t, "state of a load balancer before edges have it", cloudv1.ProvisioningPendingCreate, lb.ProvisioningState)
		for range 10 {
			c.beat(edge, cloudv1.Heartbeat{})
			time.Sleep(interval / 2)
		}
		diff(t, "state of an edge that reports to another server", cloudv1.EdgeActive, read().State)
		lb = must[*cloudv1.LoadBalancer](t)(other.client.LoadBalancer(ctx, lb.ID))
		diff(t, "state of a load balancer before edges have it", cloudv1.ProvisioningPendingCreate, lb.ProvisioningState)
		eventually(t, "the load balancer is active", func() bool {
			c.beat(edge, cloudv1.Heartbeat{AppliedRevision: must[*cloudv1.Meta](t)(c.client.Meta(ctx)).Revision})
			lb = must[*cloudv1.LoadBalancer](t)(other.client.LoadBalancer(ctx, lb.ID))
			return lb.ProvisioningState == cloudv1.ProvisioningActive
		})
		eventually(t, "an edge that is silent is offline", func() bool { return read().State == cloudv1.EdgeOffline })
		if err := c.client.DeleteEdge(ctx, edge, cloudapi.WriteOptions{}); err != nil {
			t.Error(err)
		}
	}
}
