package chart

import (
	"slices"
	"testing"

	policyv1 "k8s.io/api/policy/v1"

	"quaymaster.dev/test/harness/env"
)

// TestCustomized checks that everything users may add to pods reaches the pods of each role, and that no selector
// depends on it.
func TestCustomized(t *testing.T) {
	for name, wants := range map[string]map[string]string{
		"customized":          {"webhook": "webhook", "controllers": "controllers"},
		"customized-policies": {"controllers": "policies"},
	} {
		objects := render(t, cases()[name])
		for role, template := range pods(t, objects) {
			value := wants[role]
			if value == "" {
				continue
			}
			container := template.Spec.Containers[0]
			if template.Labels["role"] != value || template.Annotations["example.com/role"] != value {
				t.Errorf("%s: metadata of the %s is %+v", name, role, template.ObjectMeta)
			}
			if !slices.Contains(container.Args, "--v=1") {
				t.Errorf("%s: arguments of the %s are %v", name, role, container.Args)
			}
			if container.VolumeMounts[0].MountPath != "/extra" || template.Spec.Volumes[0].ConfigMap.Name != value {
				t.Errorf("%s: volumes of the %s are %+v", name, role, template.Spec.Volumes)
			}
			if got := template.Spec.TopologySpreadConstraints; len(got) != 1 || got[0].LabelSelector.MatchLabels["role"] != value {
				t.Errorf("%s: the %s are spread by %+v", name, role, got)
			}
			if got := variables(container); name == "customized" && (len(got) != 3 || got[2].Name != "HTTPS_PROXY") {
				t.Errorf("%s: environment of the %s is %+v", name, role, container.Env)
			}
		}
	}
	for _, object := range render(t, cases()["customized"]) {
		if object.GetLabels()["team"] != "network" {
			t.Errorf("%s %s has the labels %v", object.GetKind(), object.GetName(), object.GetLabels())
		}
	}
}

// TestDisruptionBudgets checks that a PodDisruptionBudget is created only where it protects users: it blocks a drain for
// as long as an evicted pod finds no other Node.
func TestDisruptionBudgets(t *testing.T) {
	fail := map[string]any{"validateService": "Fail"}
	tests := map[string]struct {
		values env.Values
		want   []string
	}{
		"failure policy Ignore": {env.Values{}, nil},
		"failure policy Fail":   {env.Values{"webhook": map[string]any{"failurePolicy": fail}}, []string{"quaymaster-webhook 1"}},
		"a single replica":      {env.Values{"webhook": map[string]any{"failurePolicy": fail, "replicas": 1}}, nil},
		"disabled": {
			env.Values{"webhook": map[string]any{"failurePolicy": fail, "podDisruptionBudget": map[string]any{"enabled": false}}}, nil,
		},
		"all roles":     {cases()["customized"], []string{"quaymaster-controllers 50%", "quaymaster-webhook 50%"}},
		"without cloud": {cases()["customized-policies"], []string{"quaymaster-controllers 50%"}},
		"DaemonSet": {
			env.Values{"cloudController": map[string]any{"kind": "DaemonSet", "podDisruptionBudget": map[string]any{"enabled": true}}}, nil,
		},
	}
	for name, test := range tests {
		var got []string
		objects := render(t, test.values)
		for _, object := range objects {
			if object.GetKind() == "PodDisruptionBudget" {
				budget := find[policyv1.PodDisruptionBudget](t, objects, object.GetKind(), object.GetName())
				got = append(got, budget.Name+" "+budget.Spec.MaxUnavailable.String())
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
