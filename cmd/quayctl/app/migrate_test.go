package app_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"

	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/kube/leadership"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/harness/cloud"
)

// formerBalancer creates a load balancer of a former cluster, whose clusterID is old.
func formerBalancer(t *testing.T, c *cloud.Cloud, name string) *cloudv1.LoadBalancer {
	t.Helper()
	lb, _, err := c.Client.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{
		Name: "old-" + name, Tags: map[string]string{ownership.ClusterUID: "former", ownership.ServiceUID: "uid of " + name, "team": "shop"},
		LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme: cloudv1.SchemePublic, VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: "vip"}},
			Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
		},
	}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lb
}

func TestMigrate(t *testing.T) {
	c, server := cloud.Start(t, 0), clusterWith(t, sharedUID)
	api := server.Client(t)
	args := []string{"migrate", "--kubeconfig=" + server.Kubeconfig(t), "--cloud-config=" + c.Config(t, "new"), "--from=former"}
	web, lost := formerBalancer(t, c, "shop-web"), formerBalancer(t, c, "shop-lost")
	if err := holder.Claim(t.Context(), c.Client, nil, "former", cloudv1.ClusterHolderSpec{Name: "old", Fingerprints: []string{"sha256:old"}}); err != nil {
		t.Fatal(err)
	}
	svc, err := api.CoreV1().Services("shop").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	c.Calls()
	code, stdout, stderr := run(t, args...)
	if code != 0 || !strings.Contains(stdout, "will move to Service shop/web") || !strings.Contains(stdout, "stays: no Service of the new cluster") ||
		!strings.Contains(stdout, "nothing was changed") || len(cloud.Writes(c.Calls())) > 0 {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}

	now := metav1.NewMicroTime(time.Now())
	leases := api.CoordinationV1().Leases(leadership.Namespace)
	if _, err := leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leadership.CloudLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("cp-1"), RenewTime: &now, LeaseDurationSeconds: new(int32(15))},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = run(t, append(args, "--yes")...)
	if code != 1 || !strings.Contains(stderr, "the controllers of this cluster are running: cp-1") || len(cloud.Writes(c.Calls())) > 0 {
		t.Errorf("while the controllers run: exit code %d: %s", code, stderr)
	}
	if err := leases.Delete(t.Context(), leadership.CloudLease, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	code, stdout, stderr = run(t, append(args, "--yes")...)
	if code != 0 || !strings.Contains(stdout, "moved to Service shop/web") {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	moved, err := c.Client.LoadBalancer(t.Context(), web.ID)
	if err != nil || moved.Tags[ownership.ClusterUID] != sharedUID || moved.Tags[ownership.ServiceUID] != string(svc.UID) ||
		moved.Tags["team"] != "shop" || moved.VIPs[0] != web.VIPs[0] {
		t.Errorf("%+v, %v", moved, err)
	}
	if kept, err := c.Client.LoadBalancer(t.Context(), lost.ID); err != nil || kept.Revision != lost.Revision {
		t.Errorf("%+v, %v", kept, err)
	}
	svc, err = api.CoreV1().Services("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if record := svc.Annotations["quaymaster.dev/load-balancer"]; err != nil || !strings.Contains(record, web.ID) || !strings.Contains(record, web.VIPs[0].Address) {
		t.Errorf("the record is %q, %v", record, err)
	}
	// Neither the former cluster nor a copy of this one may write.
	for uid, name := range map[string]string{"former": "old", sharedUID: "new"} {
		held, err := holder.Read(t.Context(), c.Client, uid)
		if err != nil || held == nil || held.Name != name || slices.Contains(held.Fingerprints, "sha256:old") {
			t.Errorf("the holder of %s is %+v, %v", uid, held, err)
		}
	}
	c.Calls()
	if code, stdout, _ := run(t, append(args, "--yes")...); code != 0 || !strings.Contains(stdout, "to move: 0, to stay: 1; nothing was changed") ||
		len(cloud.Writes(c.Calls())) > 0 {
		t.Errorf("again: exit code %d: %s", code, stdout)
	}
}

// TestMigrateWithoutDefaultClass: what the cloud config leaves to other controllers gets no load balancer.
func TestMigrateWithoutDefaultClass(t *testing.T) {
	c, server := cloud.Start(t, 0), clusterWith(t, sharedUID)
	formerBalancer(t, c, "shop-plain")
	formerBalancer(t, c, "shop-ours")
	for name, class := range map[string]*string{"plain": nil, "ours": new(config.DefaultLoadBalancerClass)} {
		if _, err := server.Client(t).CoreV1().Services("shop").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	file := c.Config(t, "old")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(content, "defaultClass: false\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, "migrate", "--kubeconfig="+server.Kubeconfig(t), "--cloud-config="+file, "--from=former")
	if code != 0 || !strings.Contains(stdout, "will move to Service shop/ours") || strings.Contains(stdout, "to Service shop/plain") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestMigrateUsage(t *testing.T) {
	c := cloud.Start(t, 0)
	kubeconfig, cloudConfig := "--kubeconfig="+clusterWith(t, sharedUID).Kubeconfig(t), "--cloud-config="+c.Config(t, "new")
	for want, args := range map[string][]string{
		"--from is required":                   {cloudConfig},
		"--cloud-config is required":           {"--from=former"},
		"--from must name a different cluster": {cloudConfig, kubeconfig, "--from=" + sharedUID},
	} {
		if code, _, stderr := run(t, append([]string{"migrate"}, args...)...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d: %s, want %s", code, stderr, want)
		}
	}
	if err := holder.Claim(t.Context(), c.Client, nil, sharedUID, cloudv1.ClusterHolderSpec{Name: "new", Fingerprints: []string{"sha256:other"}}); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, "migrate", kubeconfig, cloudConfig, "--from=former"); code != 1 || !strings.Contains(stderr, "run quayctl takeover first") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
