package nodes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// Users who may write the status of Services publish no addresses on those that are ours: the controllers would take the
// load balancers for lost. The controllers' account and administrators may, and all else in the status is free.
func TestPublishedAddresses(t *testing.T) {
	e := env.Start(t, env.Options{})
	// The webhooks do not run.
	values := env.Values{"webhook": map[string]any{"enabled": false}}
	if err := e.InstallChart(t.Context(), values); err != nil {
		t.Fatal(err)
	}
	as := func(name string, groups ...string) client.Client {
		cfg := rest.CopyConfig(e.Admin)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
		c, err := client.New(cfg, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	tenant := as("tenant")
	controllers := as("system:serviceaccount:"+env.Namespace+":quaymaster-controllers",
		"system:serviceaccounts", "system:authenticated")
	grant := []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"services", "services/status"},
			Verbs: []string{"create", "get", "list", "watch", "update", "patch", "delete"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tenant"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}},
		},
	}
	for _, object := range grant {
		if err := e.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	of := func(name string, class *string) *corev1.Service {
		svc := builder.Service()
		svc.ObjectMeta = metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
		svc.Spec.LoadBalancerClass, svc.Spec.Ports[0].NodePort = class, 0
		if err := tenant.Create(t.Context(), svc); err != nil {
			t.Fatal(err)
		}
		return svc
	}
	own, foreign := "mycloud.io/dlb", "example.com/other"
	const forged = `{"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.7"}]}}}`
	write := func(ctx context.Context, by client.Client, svc *corev1.Service, patch string, o ...client.SubResourcePatchOption) error {
		return by.Status().Patch(ctx, svc.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)), o...)
	}
	denied := func(err error) error {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "status.loadBalancer.ingress: only the controllers publish") {
			return errors.Join(errors.New("not refused by the policy"), err)
		}
		return nil
	}
	unclassed := of("unclassed", nil)
	env.Eventually(t, 30*time.Second, "the policy in effect", func(ctx context.Context) error {
		return denied(write(ctx, tenant, unclassed, forged, client.DryRunAll))
	})
	ours := of("ours", &own)
	for _, tc := range []struct {
		name    string
		by      client.Client
		service *corev1.Service
		patch   string
		refused bool
	}{
		{"a tenant publishes an address", tenant, ours, forged, true},
		{"a tenant publishes a hostname", tenant, ours, `{"status":{"loadBalancer":{"ingress":[{"hostname":"a.example"}]}}}`, true},
		{"a tenant sets a condition", tenant, ours, `{"status":{"conditions":[
			{"type":"A","status":"True","reason":"B","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`, false},
		{"a tenant sets an annotation", tenant, ours, `{"metadata":{"annotations":{"example.com/a":"b"}}}`, false},
		{"a tenant publishes an address of a different class", tenant, of("foreign", &foreign), forged, false},
		{"the controllers publish an address", controllers, ours, forged, false},
		{"a tenant repeats the address", tenant, ours, forged, false},
		{"a tenant withdraws the address", tenant, ours, `{"status":{"loadBalancer":{"ingress":null}}}`, true},
		{"an administrator withdraws the address", e.Client, ours, `{"status":{"loadBalancer":null}}`, false},
	} {
		err := write(t.Context(), tc.by, tc.service, tc.patch)
		if tc.refused {
			err = denied(err)
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
