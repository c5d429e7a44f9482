package controllers

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/cloud"
	etcdtest "quaymaster.dev/test/harness/env/etcd"
)

// TestRestoredCloud: a cloud that is restored from a backup while the controllers run, as docs/operations/backup.md says,
// gets the changes that it has lost again. No load balancer, Node or published address changes for that.
func TestRestoredCloud(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	token := filepath.Join(t.TempDir(), "token")
	w.must(os.WriteFile(token, []byte(cloud.Token), 0o600))
	server, err := w.env.StartMycloud(ctx, "", "--token-file="+token)
	w.must(err)
	w.connect(server.Endpoint)
	w.start()
	nodesAreInitialised(w)
	kept := w.published(w.service("kept"))
	first := w.balancer(kept, "load balancer", func(cloudv1.LoadBalancer) bool { return true })

	data := filepath.Join(w.env.Dir, "mycloud")
	w.must(server.Stop(soon))
	etcdtest.CopyState(t, data, data+".backup")
	w.must(server.Restart(ctx))
	w.patch(kept, map[string]string{annotation + "listener-maxqps": "6000"})
	w.qps(kept, 6000)
	lost := w.published(w.service("lost"))
	nodes := w.nodeUIDs()

	w.must(server.Stop(soon))
	w.must(os.Rename(data, data+".old"))
	etcdtest.CopyState(t, data+".backup", data)
	// The controllers ask for changes at most once a second, and a restore takes longer.
	time.Sleep(2 * time.Second)
	w.must(server.Restart(ctx))
	// What the controllers knew had the same numbers as what they write now.
	w.qps(kept, 6000)
	w.patch(kept, map[string]string{annotation + "listener-maxqps": "7000"})
	last := w.qps(kept, 7000)
	if last.ID != first.ID {
		t.Errorf("the load balancer is %s, was %s", last.ID, first.ID)
	}
	if diff := cmp.Diff(first.VIPs, last.VIPs); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(nodes, w.nodeUIDs()); diff != "" {
		t.Errorf("Nodes (-want +got):\n%s", diff)
	}
	for _, svc := range []*corev1.Service{kept, lost} {
		if diff := cmp.Diff(svc.Status.LoadBalancer, w.get(svc).Status.LoadBalancer); diff != "" {
			t.Errorf("published addresses of %s (-want +got):\n%s", svc.Name, diff)
		}
	}
	// A Service whose load balancer is lost waits: nothing takes its place before the absence is certain.
	w.condition(lost, metav1.ConditionFalse, "LoadBalancerMissing", "")
	if all, err := w.balancers(ctx, lost); err != nil || len(all) > 0 {
		t.Errorf("load balancers %+v, %v", all, err)
	}
}

// qps waits until the load balancer of a Service has this limit.
func (w *world) qps(svc *corev1.Service, want int) cloudv1.LoadBalancer {
	w.t.Helper()
	return w.balancer(svc, fmt.Sprintf("limit %d of %s", want, svc.Name), func(lb cloudv1.LoadBalancer) bool {
		return qps(lb, "tcp/80") == want
	})
}

// nodeUIDs returns the UIDs of all Nodes by name.
func (w *world) nodeUIDs() map[string]string {
	w.t.Helper()
	var nodes corev1.NodeList
	w.must(w.client.List(w.t.Context(), &nodes))
	uids := map[string]string{}
	for _, n := range nodes.Items {
		uids[n.Name] = string(n.UID)
	}
	return uids
}

// connect makes another cloud that of the world.
func (w *world) connect(endpoint string) {
	w.t.Helper()
	client, err := cloudapi.New(cloudapi.Options{Endpoint: endpoint, Token: cloudapi.StaticToken(cloud.Token)})
	w.must(err)
	w.cloud = &cloud.Cloud{Client: client, Endpoint: endpoint}
	w.config = w.cloudConfig(endpoint)
}
