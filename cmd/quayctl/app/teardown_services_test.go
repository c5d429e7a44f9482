package app_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	servicecontroller "quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/kubeapi"
)

// TestTeardownWhileServicesUseLoadBalancers: whatever classes the cloud config has now, a Service that has a load
// balancer of the cluster, or may get one, prevents the teardown.
func TestTeardownWhileServicesUseLoadBalancers(t *testing.T) {
	const uid = "00000000-0000-0000-0000-00000000c1a5"
	c, server := cloud.Start(t, 0), kubeapi.Start(t)
	api := server.Client(t).CoreV1()
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}
	if _, err := api.Namespaces().Create(t.Context(), system, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	args := []string{"teardown", "--kubeconfig=" + server.Kubeconfig(t), "--cloud-config=" + c.Config(t, "dev"), "--ignore-controllers"}
	for name, tc := range map[string]struct {
		spec     corev1.ServiceSpec
		held     bool
		balancer bool
		want     bool
	}{
		"ours":                  {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}, want: true},
		"held":                  {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new("example.com/former")}, held: true, want: true},
		"with-a-load-balancer":  {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new("example.com/former")}, balancer: true, want: true},
		"no-longer-of-the-type": {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}, balancer: true, want: true},
		"of-another-controller": {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new("example.com/other")}},
		"no-load-balancer":      {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}},
	} {
		t.Run(name, func(t *testing.T) {
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: tc.spec}
			if tc.held {
				svc.Finalizers = []string{servicecontroller.Finalizer("example.com/former")}
			}
			svc, err := api.Services("shop").Create(t.Context(), svc, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				svc.Finalizers = nil
				if _, err := api.Services("shop").Update(t.Context(), svc, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
				if err := api.Services("shop").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}()
			if tc.balancer {
				_, _, err := c.Client.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{
					Name: name, Tags: map[string]string{ownership.ClusterUID: uid, ownership.ServiceUID: string(svc.UID)},
					LoadBalancerFields: cloudv1.LoadBalancerFields{
						Scheme: cloudv1.SchemePublic, Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
					},
				}, cloudapi.WriteOptions{})
				if err != nil {
					t.Fatal(err)
				}
			}
			_, _, stderr := run(t, args...)
			if refused := strings.Contains(stderr, "1 Services still use load balancers of this cluster: shop/"+name); refused != tc.want {
				t.Errorf("refused: %t, want %t: %s", refused, tc.want, stderr)
			}
		})
	}
}
