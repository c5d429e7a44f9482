package migrate_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/migrate"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/teardown"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/kubeapi"
)

// migration is that of one Service with its load balancer, node group and route.
type migration struct {
	migrate.Migration
	cloud *cloud.Cloud
	api   *kubeapi.Server
	plan  []migrate.Item
	lb    *cloudv1.LoadBalancer
}

func planned(t *testing.T) *migration {
	t.Helper()
	c, server, ctx := cloud.Start(t, 0), kubeapi.Start(t), t.Context()
	former := map[string]string{ownership.ClusterUID: "former"}
	group, err := c.Client.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: "old-default", Tags: former}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := maps.Clone(former)
	owned[ownership.ServiceUID] = "uid-old"
	lb, _, err := c.Client.CreateLoadBalancer(ctx, cloudv1.LoadBalancerSpec{
		Name: "old-shop-web", Tags: owned,
		LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme: cloudv1.SchemePublic, Listeners: []cloudv1.Listener{},
			Pools: []cloudv1.Pool{{
				Key: "tcp/80", Family: cloudv1.FamilyIPv4, Protocol: "tcp", Algorithm: "round_robin", TargetPort: 30080, NodeGroupID: group.ID,
			}},
		},
	}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.BatchRoutes(ctx, "rt-main", cloudv1.RoutesBatch{Upsert: []cloudv1.RouteSpec{
		{Destination: "10.244.1.0/24", NextHop: cloudv1.NextHop{InstanceID: "i-node-1"}, Tags: former},
	}}, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	svc, err := server.Client(t).CoreV1().Services("shop").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := teardown.Take(ctx, c.Client, "former")
	if err != nil {
		t.Fatal(err)
	}
	m := &migration{
		Migration: migrate.Migration{Cloud: c.Client, Services: server.Client(t).CoreV1(), From: "former", To: "new"},
		cloud:     c, api: server, lb: lb,
		plan: migrate.Plan(migrate.Cluster{UID: "former", ID: "old", Owned: found}, migrate.Cluster{UID: "new", ID: "new"},
			[]corev1.Service{*svc}),
	}
	if len(m.plan) != 3 {
		t.Fatalf("the plan is %+v", m.plan)
	}
	return m
}

// balancer returns whether the load balancer has moved, and its error.
func (m *migration) balancer(t *testing.T) (moved bool, failed error) {
	t.Helper()
	for i, err := range m.Execute(t.Context(), m.plan) {
		if m.plan[i].Kind == cloudv1.KindLoadBalancer {
			failed = err
		}
	}
	now, err := m.cloud.Client.LoadBalancer(t.Context(), m.lb.ID)
	if err != nil {
		t.Fatal(err)
	}
	return now.Tags[ownership.ClusterUID] == "new", failed
}

// TestConditions: every write to the cloud requires the tags of the former owner and, where there is one, the revision
// that was planned.
func TestConditions(t *testing.T) {
	m := planned(t)
	var writes []string
	m.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			return false
		}
		kind := strings.Split(r.URL.Path, "/")[2]
		writes = append(writes, kind)
		tags := r.Header.Get(cloudv1.HeaderIfTags)
		if !strings.Contains(tags, "former") || kind == "load-balancers" && !strings.Contains(tags, "uid-old") {
			t.Errorf("%s %s requires the tags %q", r.Method, r.URL.Path, tags)
		}
		if kind != "route-tables" && r.Header.Get("If-Match") == "" {
			t.Errorf("%s %s requires no revision", r.Method, r.URL.Path)
		}
		return false
	})
	if moved, err := m.balancer(t); err != nil || !moved {
		t.Errorf("moved %t, %v", moved, err)
	}
	if want := []string{"node-groups", "load-balancers", "route-tables"}; !slices.Equal(writes, want) {
		t.Errorf("writes %q, want %q", writes, want)
	}
}

// TestChangedMeanwhile: what is no longer as it was planned stays.
func TestChangedMeanwhile(t *testing.T) {
	t.Run("load balancer", func(t *testing.T) {
		m := planned(t)
		team := "shop"
		if _, _, err := m.cloud.Client.PatchLoadBalancer(t.Context(), m.lb.ID,
			cloudv1.LoadBalancerPatch{Tags: map[string]*string{"team": &team}}, cloudapi.WriteOptions{IfMatch: m.lb.Revision}); err != nil {
			t.Fatal(err)
		}
		if moved, err := m.balancer(t); moved || !cloudapi.HasCode(err, cloudv1.CodeStaleRevision) {
			t.Errorf("moved %t, %v", moved, err)
		}
	})
	t.Run("service", func(t *testing.T) {
		m := planned(t)
		services := m.api.Client(t).CoreV1().Services("shop")
		if err := services.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		another := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		if _, err := services.Create(t.Context(), another, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if moved, err := m.balancer(t); moved || err == nil {
			t.Errorf("moved %t, %v", moved, err)
		}
		if now, err := services.Get(t.Context(), "web", metav1.GetOptions{}); err != nil || now.Annotations[service.AnnotationRecord] != "" {
			t.Errorf("the other Service records a load balancer: %v, %v", now, err)
		}
	})
}
