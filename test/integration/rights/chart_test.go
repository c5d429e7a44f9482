package rights_test

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"quaymaster.dev/test/harness/rights"
)

// granted returns the rights that the chart grants, including those of the API server's own roles that it refers to.
func (w *world) granted(others map[string][]rbacv1.PolicyRule) sets.Set[rights.Right] {
	w.t.Helper()
	if others == nil {
		others = map[string][]rbacv1.PolicyRule{}
		for name := range rights.WellKnown() {
			others[name] = nil
		}
	}
	granted, err := rights.Granted(w.rendered, others)
	w.must(err)
	return granted
}

// arguments returns the arguments of a role in the chart; none if the chart runs no pods of it.
func (w *world) arguments(role string) []string {
	w.t.Helper()
	for _, object := range w.rendered {
		pod := map[string][]string{"Deployment": {"spec", "template", "spec"}, "Pod": {"spec"}}[object.GetKind()]
		if pod == nil || object.GetName() != "quaymaster-"+role {
			continue
		}
		containers, _, err := unstructured.NestedSlice(object.Object, append(pod, "containers")...)
		w.must(err)
		args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		w.must(err)
		return args[1:] // after the name of the role
	}
	w.t.Fatalf("the chart has no pods of the %s", role)
	return nil
}

// usesCloud reports whether a role reads a cloud config.
func (w *world) usesCloud(role string) bool {
	return flag(w.arguments(role), "--cloud-config") != ""
}

// flag returns the value of a flag among arguments, or the empty string.
func flag(args []string, name string) string {
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return value
		}
	}
	return ""
}

// portable returns the arguments that mean the same outside a pod: they name no port and no file.
func portable(args []string) []string {
	var kept []string
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if !strings.HasSuffix(name, "-port") && !strings.HasSuffix(name, "-file") && !strings.HasSuffix(name, "-address") && name != "--cloud-config" {
			kept = append(kept, arg)
		}
	}
	return kept
}
