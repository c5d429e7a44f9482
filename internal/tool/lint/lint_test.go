package lint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/tool/lint"
	"quaymaster.dev/internal/tool/manifest"
)

// found lints a text with the policies in it, and returns the IDs of findings by the name of the Service.
func found(t *testing.T, linter lint.Linter, text string) map[string]string {
	t.Helper()
	f := manifest.Parse("f", []byte(text), lint.Wanted)
	namespaces := lint.Namespaces(f.Objects)
	policies, _ := linter.Policies(f.Objects, namespaces)
	reviewer := lint.NewReviewer(lint.ReviewerOptions{DefaultClass: true, Policies: policies, Namespaces: namespaces})
	ids := map[string]string{}
	results, _ := linter.Files([]manifest.File{f}, reviewer)
	for _, r := range results {
		var all []string
		for _, f := range r.Findings {
			all = append(all, f.ID)
		}
		ids[r.Object.Name] = strings.Join(all, " ")
	}
	return ids
}

const ports = "spec: {type: LoadBalancer, ports: [{port: 80}]}\n---\n"

// Kinds named Service of other API groups, and Services of other types, are ignored.
func TestOnlyLoadBalancersAreLinted(t *testing.T) {
	got := found(t, lint.Linter{},
		"apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: foreign}\n"+ports+
			"kind: Service\nmetadata: {name: careless}\n"+ports+
			"apiVersion: v1\nkind: Service\nmetadata: {name: clean}\n"+ports+
			"apiVersion: v1\nkind: Service\nmetadata: {name: inside, annotations: {a: 5}}\nspec: {type: ClusterIP}\n")
	if diff := cmp.Diff(map[string]string{"careless": "manifest-invalid", "clean": ""}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Policies and Services without a namespace are in the linter's namespace, or else in default.
func TestNamespaces(t *testing.T) {
	limits := func(kind, meta, spec string) string {
		return "apiVersion: quaymaster.dev/v1alpha1\nkind: " + kind + "\nmetadata: " + meta + "\nspec: {" + spec +
			"rules: [{annotation: service.beta.kubernetes.io/dlb-tags, required: true}]}\n---\n"
	}
	services := "apiVersion: v1\nkind: Service\nmetadata: {name: nowhere}\n" + ports +
		"apiVersion: v1\nkind: Service\nmetadata: {name: default, namespace: default}\n" + ports +
		"apiVersion: v1\nkind: Service\nmetadata: {name: edge, namespace: edge}\n" + ports +
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: edge, labels: {tier: edge}}\n"
	const required = "policy-required"
	for name, tc := range map[string]struct {
		linter lint.Linter
		policy string
		want   map[string]string
	}{
		"nowhere is default": {
			lint.Linter{}, limits("LoadBalancerPolicy", "{name: p}", ""),
			map[string]string{"nowhere": required, "default": required, "edge": ""},
		},
		"nowhere is the linter's": {
			lint.Linter{Namespace: "edge"}, limits("LoadBalancerPolicy", "{name: p}", ""),
			map[string]string{"nowhere": required, "default": "", "edge": required},
		},
		"a policy's own": {
			lint.Linter{}, limits("LoadBalancerPolicy", "{name: p, namespace: edge}", ""),
			map[string]string{"nowhere": "", "default": "", "edge": required},
		},
		"by labels of a manifest": {
			lint.Linter{}, limits("ClusterLoadBalancerPolicy", "{name: p}",
				"namespaceSelector: {matchLabels: {tier: edge}}, "),
			map[string]string{"nowhere": "", "default": "", "edge": required},
		},
		"by the name alone": {
			lint.Linter{}, limits("ClusterLoadBalancerPolicy", "{name: p}",
				"namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}, "),
			map[string]string{"nowhere": required, "default": required, "edge": ""},
		},
		"the empty selector is all": {
			lint.Linter{}, limits("ClusterLoadBalancerPolicy", "{name: p}", "namespaceSelector: {}, "),
			map[string]string{"nowhere": required, "default": required, "edge": required},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, found(t, tc.linter, tc.policy+services)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
