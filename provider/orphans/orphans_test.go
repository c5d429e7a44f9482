package orphans_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/provider/orphans"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/teardown"
	"quaymaster.dev/test/harness/cloud"
)

const clusterUID = "c1a5e000-0000-4000-8000-000000000001"

var owned = review.Own("mycloud.io/dlb", true).Owned

// web returns a Service that asks for no load balancer and has nothing of ours.
func web(change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-web", Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

func annotated(key, value string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Annotations[key] = value }
}

// publishing makes a Service ask for a load balancer and publish an address.
func publishing(address string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.Type = corev1.ServiceTypeLoadBalancer
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	}
}

func TestFind(t *testing.T) {
	const retain = "service.beta.kubernetes.io/dlb-retain-on-delete"
	lost := func(lb *cloudv1.LoadBalancer) { lb.Tags[ownership.ServiceUID] = "uid-lost" }
	for name, tc := range map[string]struct {
		svc    *corev1.Service
		change func(*cloudv1.LoadBalancer)
		// reason is empty if the load balancer is no orphan.
		reason string
	}{
		"no service": {reason: orphans.Unused},
		"a service that asks for one": {
			svc: web(func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeLoadBalancer }),
		},
		"a service of another controller": {
			svc: web(func(svc *corev1.Service) {
				svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new("example.com/other")
			}),
			reason: orphans.Unused,
		},
		"a service of another type":   {svc: web(), reason: orphans.Unused},
		"one that still has a record": {svc: web(annotated(service.AnnotationRecord, "{}"))},
		"one that still publishes": {svc: web(func(svc *corev1.Service) {
			svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}
		})},
		"one that is being deleted":    {svc: web(func(svc *corev1.Service) { svc.DeletionTimestamp = &metav1.Time{} })},
		"one that retains":             {svc: web(annotated(retain, "true")), reason: orphans.Retained},
		"one that retains, misspelled": {svc: web(annotated(retain, "yes")), reason: orphans.Retained},
		"one that does not retain":     {svc: web(annotated(retain, "false")), reason: orphans.Unused},
		"of a lost service, with an address that another publishes": {
			svc: web(publishing("203.0.113.1")), change: lost, reason: orphans.Published,
		},
		"of a lost service, with an address that another publishes that is being deleted": {
			svc:    web(publishing("203.0.113.1"), func(svc *corev1.Service) { svc.DeletionTimestamp = &metav1.Time{} }),
			change: lost, reason: orphans.Unused,
		},
		"of a lost service, with another address": {
			svc: web(publishing("203.0.113.2")), change: lost, reason: orphans.Unused,
		},
		"being deleted": {
			change: func(lb *cloudv1.LoadBalancer) { lb.ProvisioningState = cloudv1.ProvisioningPendingDelete },
		},
		"protected": {
			change: func(lb *cloudv1.LoadBalancer) { lb.DeletionProtection = true }, reason: orphans.Protected,
		},
		"adopted": {
			change: func(lb *cloudv1.LoadBalancer) { lb.Tags[ownership.Original] = "hash" }, reason: orphans.Adopted,
		},
		"without the service's tag": {
			change: func(lb *cloudv1.LoadBalancer) { delete(lb.Tags, ownership.ServiceUID) }, reason: orphans.Untagged,
		},
	} {
		t.Run(name, func(t *testing.T) {
			lb := &cloudv1.LoadBalancer{Object: cloudv1.Object{
				ID: "lb-web", Tags: map[string]string{ownership.ClusterUID: clusterUID, ownership.ServiceUID: "uid-web"},
			}}
			lb.VIPs = []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Address: "203.0.113.1"}}
			if tc.change != nil {
				tc.change(lb)
			}
			var services []*corev1.Service
			if tc.svc != nil {
				services = append(services, tc.svc)
			}
			reason := ""
			for _, o := range orphans.Find([]*cloudv1.LoadBalancer{lb}, services, owned) {
				reason = o.Reason()
				if (o.Keep() == "") != (reason == orphans.Unused) {
					t.Errorf("%s is kept because %q", reason, o.Keep())
				}
			}
			if reason != tc.reason {
				t.Errorf("reason %q, want %q", reason, tc.reason)
			}
		})
	}
}

// create creates a load balancer of the cluster for the Service with the UID.
func create(t *testing.T, c *cloud.Cloud, uid string, protected bool) *cloudv1.LoadBalancer {
	t.Helper()
	lb, _, err := c.Client.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{
		Name: "dev-" + uid, Tags: map[string]string{ownership.ClusterUID: clusterUID, ownership.ServiceUID: uid},
		LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme: cloudv1.SchemePublic, DeletionProtection: protected,
			Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
		},
	}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lb
}

// TestDelete: what changes after it was listed stays, and so does what must be kept.
func TestDelete(t *testing.T) {
	c := cloud.Start(t, 0)
	create(t, c, "uid-unused", false)
	create(t, c, "uid-protected", true)
	create(t, c, "uid-web", false)
	taken := create(t, c, "uid-taken", false)
	used := web(func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeLoadBalancer })
	found, err := orphans.List(t.Context(), c.Client, fake.NewClientset(used).CoreV1(), clusterUID, owned)
	if err != nil || len(found) != 3 {
		t.Fatal(found, err)
	}
	other := "uid-other"
	if _, _, err := c.Client.PatchLoadBalancer(t.Context(), taken.ID, cloudv1.LoadBalancerPatch{
		Tags: map[string]*string{ownership.ServiceUID: &other},
	}, cloudapi.WriteOptions{IfMatch: taken.Revision}); err != nil {
		t.Fatal(err)
	}
	plan := orphans.Plan(found)
	for i, err := range teardown.Execute(t.Context(), c.Client, plan) {
		if (err != nil) != (plan[i].ID == taken.ID) || err != nil && !cloudapi.HasCode(err, cloudv1.CodeStaleRevision, cloudv1.CodeTagsMismatch) {
			t.Errorf("%s: %v", plan[i].Name, err)
		}
	}
	left, err := c.Client.ListLoadBalancers(t.Context(), cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, lb := range left.Items {
		names[lb.Name] = true
	}
	if len(names) != 3 || names["dev-uid-unused"] {
		t.Errorf("left: %v", names)
	}
}
