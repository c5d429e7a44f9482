package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/store"
	"quaymaster.dev/internal/mycloud/server/store/etcd"
)

// etcdVariable is the environment variable with the endpoint of an etcd. With it, all tests have their states there.
const etcdVariable = "MYCLOUD_TEST_ETCD"

// prefixFile is in the data directory of a cloud whose state is in etcd.
const prefixFile = "prefix"

// openServer opens a server. Its state is in etcd if there is one.
func openServer(t *testing.T, o server.Options) (*server.Server, error) {
	t.Helper()
	if os.Getenv(etcdVariable) == "" {
		return server.Open(o)
	}
	prefix, err := os.ReadFile(filepath.Join(o.DataDir, prefixFile))
	if err != nil {
		prefix = []byte(o.DataDir + "/")
		if err := os.WriteFile(filepath.Join(o.DataDir, prefixFile), prefix, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.Store = func(o server.Options) (store.Store, error) {
		return etcd.Open(etcd.Options{Config: etcdConfig(), Prefix: string(prefix), Dir: o.DataDir, Clock: o.Clock, Logger: o.Logger})
	}
	return server.Open(o)
}

func etcdConfig() clientv3.Config {
	return clientv3.Config{Endpoints: []string{os.Getenv(etcdVariable)}}
}

// copyState copies the state of a cloud that is stopped, and its data directory.
func copyState(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if os.Getenv(etcdVariable) == "" {
		return
	}
	client := must[*clientv3.Client](t)(clientv3.New(etcdConfig()))
	defer client.Close()
	for key, value := range keysOf(t, client, from) {
		must[*clientv3.PutResponse](t)(client.Put(t.Context(), to+"/"+key, value))
	}
	if err := os.WriteFile(filepath.Join(to, prefixFile), []byte(to+"/"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// rawState returns the state of a cloud that is stopped as it is on the disk.
func rawState(t *testing.T, dir string) []byte {
	t.Helper()
	if os.Getenv(etcdVariable) == "" {
		return must[[]byte](t)(os.ReadFile(filepath.Join(dir, "state.db")))
	}
	client := must[*clientv3.Client](t)(clientv3.New(etcdConfig()))
	defer client.Close()
	return fmt.Append(nil, keysOf(t, client, dir))
}

// keysOf returns the keys of a state in etcd without their prefix, and their values.
func keysOf(t *testing.T, client *clientv3.Client, dir string) map[string]string {
	t.Helper()
	prefix := string(must[[]byte](t)(os.ReadFile(filepath.Join(dir, prefixFile))))
	all := map[string]string{}
	for _, kv := range must[*clientv3.GetResponse](t)(client.Get(t.Context(), prefix, clientv3.WithPrefix())).Kvs {
		all[strings.TrimPrefix(string(kv.Key), prefix)] = string(kv.Value)
	}
	return all
}

// TestEdgesOfOtherServers: all servers know what edges report to one of them, whichever leads.
func TestEdgesOfOtherServers(t *testing.T) {
	if os.Getenv(etcdVariable) == "" {
		t.Skip("one server has the state; set " + etcdVariable)
	}
	const interval = 300 * time.Millisecond
	often := func(o *server.Options) { o.HeartbeatInterval = interval }
	first := newCloud(t, often)
	dir := filepath.Join(t.TempDir(), "second")
	if err := os.CopyFS(dir, os.DirFS(first.dir)); err != nil {
		t.Fatal(err)
	}
	second := newCloud(t, often, withDir(dir))
	ctx := t.Context()
	for i, c := range []*cloud{first, second} {
		other := []*cloud{second, first}[i]
		edge := c.register(fmt.Sprint("edge-", i)).ID
		read := func() *cloudv1.Edge {
			return must[*cloudv1.Edge](t)(other.client.Edge(ctx, edge, cloudapi.ReadOptions{}))
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
		lb = must[*cloudv1.LoadBalancer](t)(other.client.LoadBalancer(ctx, lb.ID, cloudapi.ReadOptions{}))
		diff(t, "state of a load balancer before edges have it", cloudv1.ProvisioningPendingCreate, lb.ProvisioningState)
		eventually(t, "the load balancer is active", func() bool {
			c.beat(edge, cloudv1.Heartbeat{AppliedRevision: must[*cloudv1.Meta](t)(c.client.Meta(ctx)).Revision})
			lb = must[*cloudv1.LoadBalancer](t)(other.client.LoadBalancer(ctx, lb.ID, cloudapi.ReadOptions{}))
			return lb.ProvisioningState == cloudv1.ProvisioningActive
		})
		eventually(t, "an edge that is silent is offline", func() bool { return read().State == cloudv1.EdgeOffline })
		if err := c.client.DeleteEdge(ctx, edge, cloudapi.WriteOptions{}); err != nil {
			t.Error(err)
		}
	}
}
