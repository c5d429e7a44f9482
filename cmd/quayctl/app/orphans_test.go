package app_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/quayctl/app"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/harness/cloud"
)

// balancerOf creates a load balancer of the cluster for the Service with the UID.
func balancerOf(t *testing.T, c *cloud.Cloud, name, uid string, protected bool) *cloudv1.LoadBalancer {
	t.Helper()
	lb, _, err := c.Client.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{
		Name: name, Tags: map[string]string{ownership.ClusterUID: sharedUID, ownership.ServiceUID: uid},
		LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme: cloudv1.SchemePublic, VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: "vip"}}, DeletionProtection: protected,
			Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
		},
	}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lb
}

func TestOrphans(t *testing.T) {
	c, server := cloud.Start(t, 0), clusterWith(t, sharedUID)
	args := []string{"orphans", "--kubeconfig=" + server.Kubeconfig(t), "--cloud-config=" + c.Config(t, "prod")}
	services := server.Client(t).CoreV1().Services("shop")
	web, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	used := balancerOf(t, c, "prod-shop-web", string(web.UID), false)
	if code, out, stderr := run(t, args...); code != 0 || !strings.Contains(out, "every load balancer of this cluster has a Service") {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	first, second := balancerOf(t, c, "prod-shop-first", "uid-1", false), balancerOf(t, c, "prod-shop-second", "uid-2", false)
	protected := balancerOf(t, c, "prod-shop-protected", "uid-3", true)
	code, out, stderr := run(t, args...)
	for _, want := range []string{first.ID, first.VIPs[0].Address, second.ID, protected.ID, "it has deletion protection"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("the list lacks %q:\n%s%s", want, out, stderr)
		}
	}
	if strings.Contains(out, used.ID) {
		t.Errorf("the list has the load balancer of a Service:\n%s", out)
	}

	c.Calls()
	for want, more := range map[string][]string{
		used.ID + " is not an orphan of this cluster":         {"--yes", first.ID, used.ID},
		protected.ID + " is kept: it has deletion protection": {"--yes", first.ID, protected.ID},
	} {
		if code, out, stderr := run(t, append(append(args, "--delete"), more...)...); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d, want %q: %s%s", code, want, out, stderr)
		}
	}
	out, err = answered(t, "no\n", append(args, "--delete", first.ID)...)
	if err == nil || !strings.Contains(out, first.VIPs[0].Address) || strings.Contains(out, second.ID) {
		t.Errorf("without confirmation: %v\n%s", err, out)
	}
	if writes := cloud.Writes(c.Calls()); len(writes) > 0 {
		t.Errorf("writes %v, want none", writes)
	}

	if out, err := answered(t, "yes\n", append(args, "--delete", first.ID)...); err != nil || !strings.Contains(out, first.ID+"): deleted") {
		t.Errorf("%v\n%s", err, out)
	}
	if code, out, stderr := run(t, append(args, "--delete", "--all", "--yes")...); code != 0 || !strings.Contains(out, second.ID+"): deleted") {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	if code, out, stderr := run(t, append(args, "--delete", "--all", "--yes")...); code != 0 || !strings.Contains(out, "nothing to delete") {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	left, err := c.Client.ListLoadBalancers(t.Context(), cloudapi.ListOptions{})
	if err != nil || len(left.Items) != 2 {
		t.Errorf("%d load balancers are left, %v, want the used and the protected one", len(left.Items), err)
	}
}

// duringQuestion does something before it answers yes.
type duringQuestion struct {
	do     func()
	answer io.Reader
}

func (d *duringQuestion) Read(p []byte) (int, error) {
	if d.do != nil {
		d.do()
		d.do = nil
	}
	return d.answer.Read(p)
}

// TestOrphanIsUsedAgain: a Service may begin to use the load balancer while the operator is asked.
func TestOrphanIsUsedAgain(t *testing.T) {
	c, server := cloud.Start(t, 0), clusterWith(t, sharedUID)
	services := server.Client(t).CoreV1().Services("shop")
	web, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lb := balancerOf(t, c, "prod-shop-web", string(web.UID), false)
	var out bytes.Buffer
	cmd := app.NewCommand("quayctl")
	cmd.SetArgs([]string{
		"orphans", "--kubeconfig=" + server.Kubeconfig(t), "--cloud-config=" + c.Config(t, "prod"), "--delete", lb.ID,
	})
	cmd.SetIn(&duringQuestion{answer: strings.NewReader("yes\n"), do: func() {
		web.Spec.Type = corev1.ServiceTypeLoadBalancer
		if _, err := services.Update(t.Context(), web, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	}})
	cmd.SetOut(&out)
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing was deleted: load balancer "+lb.ID+" is not an orphan") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "shop/web (ClusterIP)") {
		t.Errorf("the list lacks the Service:\n%s", out.String())
	}
	if _, err := c.Client.LoadBalancer(t.Context(), lb.ID); err != nil {
		t.Error(err)
	}
}

// TestOrphansOfACopy: in a copy of a cluster, load balancers that are newer than the copy seem to have no Service.
func TestOrphansOfACopy(t *testing.T) {
	c, server := cloud.Start(t, 0), clusterWith(t, sharedUID)
	args := []string{"orphans", "--kubeconfig=" + server.Kubeconfig(t), "--cloud-config=" + c.Config(t, "prod")}
	balancerOf(t, c, "prod-shop-newer", "uid-newer", false)
	if err := holder.Claim(t.Context(), c.Client, nil, sharedUID, cloudv1.ClusterHolderSpec{Name: "prod", Fingerprints: []string{"sha256:other"}}); err != nil {
		t.Fatal(err)
	}
	c.Calls()
	for _, more := range [][]string{nil, {"--delete", "--all", "--yes"}} {
		if code, out, stderr := run(t, append(args, more...)...); code != 1 || out != "" || !strings.Contains(stderr, "run quayctl takeover first") {
			t.Errorf("exit code %d: %s%s", code, out, stderr)
		}
	}
	if writes := cloud.Writes(c.Calls()); len(writes) > 0 {
		t.Errorf("writes %v, want none", writes)
	}
}

func TestOrphansUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"--cloud-config is required":                              nil,
		"IDs, --all and --yes require --delete":                   {"lb-1"},
		"require --delete":                                        {"--all"},
		"--delete requires either IDs of load balancers or --all": {"--delete"},
		"either IDs of load balancers or --all":                   {"--delete", "--all", "lb-1"},
	} {
		if code, _, stderr := run(t, append([]string{"orphans"}, args...)...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d: %s, want %s", code, stderr, want)
		}
	}
}
