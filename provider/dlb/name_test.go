package dlb_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/test/builder"
)

func TestNameTaken(t *testing.T) {
	f := start(t, 0)
	one := builder.Service(func(s *corev1.Service) { s.Namespace, s.Name, s.UID = "a-b", "c", "uid-1" })
	two := builder.Service(func(s *corev1.Service) { s.Namespace, s.Name, s.UID = "a", "b-c", "uid-2" })
	f.mustEnsure(one)
	f.cloud.Calls()
	f.mustEnsure(two)
	f.expectCalls("name taken", "POST load-balancers", "GET load-balancers/{id}",
		"POST load-balancers", "GET load-balancers/{id}")
	f.expectEvent("Name \"dev-a-b-c\" is taken")
	var names []string
	for _, lb := range f.all() {
		names = append(names, lb.Name)
	}
	slices.Sort(names)
	if len(names) != 2 || names[0] != "dev-a-b-c" || len(names[1]) != len("dev-a-b-c-01234567") ||
		!strings.HasPrefix(names[1], "dev-a-b-c-") {
		t.Errorf("names %v, want dev-a-b-c and dev-a-b-c-<8 characters>", names)
	}
	f.cloud.Calls()
	f.mustEnsure(two)
	f.expectCalls("again")
}

// Both possible names are taken: this is refused until one of them is free.
func TestBothNamesTaken(t *testing.T) {
	for name, exists := range map[string]bool{"of a new one": false, "of one renamed by hand": true} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			take := func(name string) {
				spec := cloudv1.LoadBalancerSpec{Name: name}
				spec.Scheme, spec.Listeners, spec.Pools = "public", []cloudv1.Listener{}, []cloudv1.Pool{}
				if _, _, err := f.cloud.Client.CreateLoadBalancer(t.Context(), spec, cloudapi.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			take("dev-shop-web")
			svc := builder.Service()
			f.mustEnsure(svc)
			unique := ""
			for _, lb := range f.all() {
				if lb.Name == "dev-shop-web" {
					continue
				}
				unique = lb.Name
				var err error
				if exists {
					renamed := "renamed"
					_, _, err = f.cloud.Client.PatchLoadBalancer(
						t.Context(), lb.ID, cloudv1.LoadBalancerPatch{Name: &renamed}, cloudapi.WriteOptions{IfMatch: lb.Revision},
					)
				} else {
					_, err = f.cloud.Client.DeleteLoadBalancer(t.Context(), lb.ID, cloudapi.WriteOptions{IfMatch: lb.Revision})
					builder.Annotation(record.AnnotationAbandon, lb.ID)(svc)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			take(unique)
			want := `names "dev-shop-web" and "` + unique + `" are taken by other load balancers; rename or delete one of them; ` +
				"quayctl orphans lists those without a service"
			_, first := f.ensure(svc)
			_, second := f.ensure(svc)
			if first == nil || second == nil || first.Error() != second.Error() || !strings.HasSuffix(first.Error(), want) {
				t.Errorf("errors %v and %v, want twice %q", first, second, want)
			}
			f.expectCondition(svc, metav1.ConditionFalse, "RefusedByCloud", want)
		})
	}
}
