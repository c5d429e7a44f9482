package migrate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/teardown"
)

func balancer(id, name string, change ...func(*cloudv1.LoadBalancer)) cloudv1.LoadBalancer {
	lb := cloudv1.LoadBalancer{Object: cloudv1.Object{ID: id, Name: name, Tags: map[string]string{}}}
	for _, c := range change {
		c(&lb)
	}
	return lb
}

func owned(by string) func(*cloudv1.LoadBalancer) {
	return func(lb *cloudv1.LoadBalancer) { lb.Tags[ownership.ServiceUID] = by }
}

func deleting(lb *cloudv1.LoadBalancer) { lb.ProvisioningState = cloudv1.ProvisioningPendingDelete }

// service returns a Service whose UID is its name; it may record a load balancer.
func serviceOf(namespace, name, records string) corev1.Service {
	svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	if records != "" {
		svc.Annotations = map[string]string{service.AnnotationRecord: `{"id":"` + records + `"}`}
	}
	return svc
}

func group(id, name string) cloudv1.NodeGroup {
	return cloudv1.NodeGroup{Object: cloudv1.Object{ID: id, Name: id, Tags: map[string]string{ownership.IngressGroup: name}}}
}

// unique returns the name that a Service's load balancer has if the plain one is taken.
func unique(namespace, name string) string {
	svc := serviceOf(namespace, name, "")
	_, unique := dlb.Names("old", "uid-old", &svc)
	return unique
}

func TestPlan(t *testing.T) {
	gone := serviceOf("shop", "web", "")
	gone.DeletionTimestamp = &metav1.Time{}
	for name, test := range map[string]struct {
		from, to teardown.Inventory
		services []corev1.Service
		// want has a line for each item: ID, and its Service or why it stays.
		want []string
	}{
		"by name": {
			from:     teardown.Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("lb-1", "old-shop-web"), balancer("lb-2", "old-shop-api")}},
			services: []corev1.Service{serviceOf("shop", "api", ""), serviceOf("shop", "web", ""), serviceOf("shop", "other", "")},
			want:     []string{"lb-2 > shop/api", "lb-1 > shop/web"},
		},
		"by the record, whatever the name": {
			from:     teardown.Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("lb-1", "renamed")}},
			services: []corev1.Service{serviceOf("shop", "web", "lb-1")},
			want:     []string{"lb-1 > shop/web"},
		},
		"two Services with one plain name": {
			from: teardown.Inventory{LoadBalancers: []cloudv1.LoadBalancer{
				balancer("lb-1", "old-a-b-c"), balancer("lb-2", unique("a", "b-c")),
			}},
			services: []corev1.Service{serviceOf("a-b", "c", ""), serviceOf("a", "b-c", "")},
			want:     []string{"lb-1 > a-b/c", "lb-2 > a/b-c"},
		},
		"one of two Services with one plain name": {
			from:     teardown.Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("lb-1", "old-a-b-c")}},
			services: []corev1.Service{serviceOf("a-b", "c", ""), serviceOf("a", "b-c", "")},
			want:     []string{"lb-1 stays: Services a-b/c and a/b-c have its name or record it"},
		},
		"one of two Services, and a record decides": {
			from:     teardown.Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("lb-1", "old-a-b-c")}},
			services: []corev1.Service{serviceOf("a-b", "c", ""), serviceOf("a", "b-c", "lb-1")},
			want:     []string{"lb-1 > a/b-c"},
		},
		"a record that its user has forged": {
			from:     teardown.Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("lb-1", "old-bank-pay")}},
			services: []corev1.Service{serviceOf("bank", "pay", ""), serviceOf("mallory", "web", "lb-1")},
			want:     []string{"lb-1 stays: Services mallory/web and bank/pay have its name or record it"},
		},
		"a forged record of a unique name": {
			from:     teardown.Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("lb-1", unique("bank", "pay"))}},
			services: []corev1.Service{serviceOf("bank", "pay", ""), serviceOf("mallory", "web", "lb-1")},
			want:     []string{"lb-1 stays: Services mallory/web and bank/pay have its name or record it"},
		},
		"a Service with the record of a load balancer that has lost its tags": {
			from:     teardown.Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("lb-1", "old-shop-web")}},
			services: []corev1.Service{serviceOf("shop", "web", "lb-9")},
			want:     []string{"lb-1 stays: Service shop/web records load balancer lb-9"},
		},
		"no Service": {
			from: teardown.Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("lb-1", "old-shop-web")}},
			want: []string{"lb-1 stays: no Service of the new cluster"},
		},
		"a Service that has its own": {
			from:     teardown.Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("lb-1", "old-shop-web")}},
			to:       teardown.Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("lb-9", "new-shop-web", owned("web"))}},
			services: []corev1.Service{serviceOf("shop", "web", "")},
			want:     []string{"lb-1 stays: Service shop/web already has load balancer lb-9"},
		},
		"one that is being deleted": {
			from:     teardown.Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("lb-1", "old-shop-web", deleting)}},
			services: []corev1.Service{serviceOf("shop", "web", "")},
			want:     []string{"lb-1 stays: it is being deleted"},
		},
		"a Service that is being deleted": {
			from:     teardown.Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("lb-1", "old-shop-web")}},
			services: []corev1.Service{gone},
			want:     []string{"lb-1 stays: Service shop/web is being deleted"},
		},
		"groups first, except those that the new cluster has": {
			from: teardown.Inventory{
				LoadBalancers: []cloudv1.LoadBalancer{balancer("lb-1", "old-shop-web")},
				NodeGroups:    []cloudv1.NodeGroup{group("ng-1", "default"), group("ng-2", "edge")},
				Routes:        []cloudv1.Route{{Object: cloudv1.Object{ID: "rte-1"}}},
			},
			to:       teardown.Inventory{NodeGroups: []cloudv1.NodeGroup{group("ng-9", "edge")}},
			services: []corev1.Service{serviceOf("shop", "web", "")},
			want:     []string{"ng-1 > ", "ng-2 stays: the new cluster has its own, ng-9", "lb-1 > shop/web", "rte-1 > "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			items := Plan(Cluster{UID: "uid-old", ID: "old", Owned: test.from}, Cluster{UID: "uid-new", ID: "new", Owned: test.to}, test.services)
			for i, item := range items {
				line := item.ID + " > " + item.Service
				if item.Keep != "" {
					line = item.ID + " stays: " + item.Keep
				}
				if i < len(test.want) && strings.HasPrefix(line, test.want[i]) && item.Keep != "" {
					line = test.want[i]
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("unexpected plan (-want +got):\n%s", diff)
			}
		})
	}
}
