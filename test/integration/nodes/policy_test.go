// Package nodes tests on a real API server what kubelets may write to Nodes, and users to the status of Services, under the
// admission policies of the chart.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

const (
	mark    = "node.beta.kubernetes.io/dlb-ingress-node"
	exclude = corev1.LabelNodeExcludeBalancers
	// The paths that the policy also protects.
	podCIDRs, providerID = "spec.podCIDRs", "spec.providerID"
)

// cluster is an API server with the chart's policy, a kubelet's client and an administrator's.
type cluster struct {
	admin, kubelet client.Client
}

func start(t *testing.T) cluster {
	t.Helper()
	e := env.Start(t, env.Options{})
	if err := e.InstallChart(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	// Without the Node authorizer, the role of kubelets is bound to nothing.
	err := e.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubelets"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := rest.CopyConfig(e.Admin)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:node:node-1", Groups: []string{"system:nodes"}}
	kubelet, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{admin: e.Client, kubelet: kubelet}
	env.Eventually(t, 30*time.Second, "the policy in effect", func(ctx context.Context) error {
		err := c.kubelet.Create(ctx, node("probe", map[string]string{mark: "true"}, nil), client.DryRunAll)
		if err == nil {
			return errors.New("a kubelet may mark its Node")
		}
		return denied(err, mark)
	})
	return c
}

func node(name string, annotations, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations, Labels: labels}}
}

// denied returns an error unless err is the policy's rejection that names the key.
func denied(err error, key string) error {
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), key+": kubelets must not set, change or remove it") {
		return fmt.Errorf("error %w, want the rejection of %s", err, key)
	}
	return nil
}

func TestKubelets(t *testing.T) {
	c := start(t)
	ctx := t.Context()
	if err := denied(c.kubelet.Create(ctx, node("node-1", nil, map[string]string{exclude: ""})), exclude); err != nil {
		t.Errorf("create with label: %v", err)
	}
	routed := node("node-1", nil, nil)
	routed.Spec.PodCIDR, routed.Spec.PodCIDRs = "0.0.0.0/0", []string{"0.0.0.0/0"}
	if err := denied(c.kubelet.Create(ctx, routed), podCIDRs); err != nil {
		t.Errorf("create with a pod CIDR: %v", err)
	}
	plain := map[string]string{"example.com/any": "thing"}
	if err := c.kubelet.Create(ctx, node("node-1", plain, plain)); err != nil {
		t.Fatalf("create without: %v", err)
	}
	known := node("node-3", nil, nil)
	known.Spec.ProviderID = "mycloud://i-3"
	if err := c.kubelet.Create(ctx, known, client.DryRunAll); err != nil {
		t.Errorf("create with a provider ID: %v", err)
	}
	if err := c.admin.Create(ctx, node("node-2", map[string]string{mark: "false"}, map[string]string{exclude: ""})); err != nil {
		t.Fatal(err)
	}

	set := func(kind, key, value string) string {
		return fmt.Sprintf(`{"metadata":{%q:{%q:%s}}}`, kind, key, value)
	}
	for _, tc := range []struct{ name, key, patch string }{
		{"sets a pod CIDR", podCIDRs, `{"spec":{"podCIDR":"0.0.0.0/0","podCIDRs":["0.0.0.0/0"]}}`},
		{"sets the provider ID", providerID, `{"spec":{"providerID":"mycloud://i-other"}}`},
	} {
		patch := client.RawPatch("application/merge-patch+json", []byte(tc.patch))
		if err := denied(c.kubelet.Patch(ctx, node("node-1", nil, nil), patch, client.DryRunAll), tc.key); err != nil {
			t.Errorf("a kubelet %s: %v", tc.name, err)
		}
		if err := c.admin.Patch(ctx, node("node-1", nil, nil), patch, client.DryRunAll); err != nil {
			t.Errorf("an administrator %s: %v", tc.name, err)
		}
	}
	for _, tc := range []struct{ name, node, key, patch string }{
		{"sets the mark", "node-1", mark, set("annotations", mark, `"true"`)},
		{"sets an empty mark", "node-1", mark, set("annotations", mark, `""`)},
		{"sets the label", "node-1", exclude, set("labels", exclude, `""`)},
		{"changes the mark", "node-2", mark, set("annotations", mark, `"true"`)},
		{"removes the mark", "node-2", mark, set("annotations", mark, "null")},
		{"changes the label", "node-2", exclude, set("labels", exclude, `"x"`)},
		{"removes the label", "node-2", exclude, set("labels", exclude, "null")},
		{"removes all annotations", "node-2", mark, `{"metadata":{"annotations":null}}`},
		{"does something else", "node-1", "", set("annotations", "example.com/any", `"other"`)},
		{"does something else to a marked node", "node-2", "", set("labels", "example.com/any", `"other"`)},
	} {
		patch := client.RawPatch("application/merge-patch+json", []byte(tc.patch))
		for path, send := range map[string]func(client.Client) error{
			"node": func(by client.Client) error {
				return by.Patch(ctx, node(tc.node, nil, nil), patch, client.DryRunAll)
			},
			"status": func(by client.Client) error {
				return by.Status().Patch(ctx, node(tc.node, nil, nil), patch, client.DryRunAll)
			},
		} {
			err := send(c.kubelet)
			if tc.key != "" {
				err = denied(err, tc.key)
			}
			if err != nil {
				t.Errorf("a kubelet %s by %s: %v", tc.name, path, err)
			}
			if err := send(c.admin); err != nil {
				t.Errorf("an administrator %s by %s: %v", tc.name, path, err)
			}
		}
	}
}
