package templates_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/test/harness/env"
)

// rendered returns an object of the chart.
func rendered[T any](t *testing.T, kind, name string) *T {
	t.Helper()
	all, err := env.RenderChart(shared.values)
	if err != nil {
		t.Fatal(err)
	}
	object := new(T)
	for _, o := range all {
		if o.GetKind() == kind && o.GetName() == name {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, object); err != nil {
				t.Fatal(err)
			}
			return object
		}
	}
	t.Fatalf("the chart has no %s %s", kind, name)
	return nil
}

func quayctl(t *testing.T, args ...string) env.Output {
	t.Helper()
	path, err := env.Program("quayctl")
	if err != nil {
		t.Fatal(err)
	}
	out, err := env.Run(t.Context(), "", path, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What was stored before Quaymaster is found by an audit, at the paths that admission names, in the kinds that the cluster
// has, and in those of templates of users only with these.
func TestStored(t *testing.T) {
	var builtIn []string
	own := ""
	for _, bad := range mistakes {
		line := bad.kind[strings.Index(bad.kind, " ")+1:] + " old " + bad.path + "[" + bad.wrong + "]"
		if bad.kind == shop {
			own = line
		} else {
			builtIn = append(builtIn, line)
		}
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("templates: [{group: example.com, kind: Shop, annotations: \"spec.doors[].annotations\"}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"built-in":              {nil, builtIn},
		"a flag":                {[]string{`--service-template={"group":"example.com","kind":"Shop","annotations":"spec.doors[].annotations"}`}, append(slices.Clone(builtIn), own)},
		"the config file":       {[]string{"--config=" + config}, append(slices.Clone(builtIn), own)},
		"one namespace":         {[]string{"-n", namespace}, builtIn},
		"another namespace":     {[]string{"-n", metav1.NamespaceDefault}, nil},
		"other namespaces":      {[]string{"--namespace-selector=kubernetes.io/metadata.name!=" + namespace}, nil},
		"a catalog of Services": {[]string{"--catalog=hcloud"}, builtIn[:1]},
	} {
		t.Run(name, func(t *testing.T) {
			out := quayctl(t, append([]string{"audit", "--kubeconfig=" + shared.AdminKubeconfig, "-o", "json"}, tc.args...)...)
			var answer struct{ Results []report.Result }
			if err := json.Unmarshal([]byte(out.Stdout), &answer); err != nil {
				t.Fatalf("%v: %+v", err, out)
			}
			var got []string
			for _, r := range answer.Results {
				for _, f := range r.Findings {
					got = append(got, r.Object.Kind+" "+r.Object.Name+" "+f.Path)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s(-want +got):\n%s", out.Stderr, diff)
			}
		})
	}
}

// The CronJob of the chart finds all of them with the rights of its account, and says how many of which kinds there are.
func TestStoredByTheChart(t *testing.T) {
	kubeconfig, err := shared.ServiceAccountKubeconfig(t.Context(), env.Namespace, "quaymaster-audit")
	if err != nil {
		t.Fatal(err)
	}
	job := rendered[batchv1.CronJob](t, "CronJob", "quaymaster-audit")
	out := quayctl(t, append(job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args, "--kubeconfig="+kubeconfig)...)
	const want = "4 errors in 4 of 4 objects (1 Gateway, 1 Ingress, 1 Kafka, 1 Shop)\n"
	if out.Code != 1 || out.Stderr != want {
		t.Errorf("exit code %d, %q, want %q:\n%s", out.Code, out.Stderr, want, out.Stdout)
	}
	events := &corev1.EventList{}
	if err := shared.Client.List(t.Context(), events, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var about []string
	for _, e := range events.Items {
		if e.Source.Component == "quaymaster-audit" && e.InvolvedObject.UID != "" {
			about = append(about, e.Reason+" "+e.InvolvedObject.APIVersion+" "+e.InvolvedObject.Kind)
		}
	}
	slices.Sort(about)
	if diff := cmp.Diff([]string{"InvalidGateway " + gateway, "InvalidIngress " + ingress, "InvalidKafka " + kafka, "InvalidShop " + shop}, about); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
	// It lists in pages, and nothing that the cluster does not have.
	log, err := os.ReadFile(shared.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for line := range strings.Lines(string(log)) {
		event := &auditv1.Event{}
		if err := json.Unmarshal([]byte(line), event); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(event.User.Username, ":quaymaster-audit") {
			continue
		}
		if event.ResponseStatus.Code >= 400 || event.Verb == "list" && !strings.Contains(event.RequestURI, "?limit=500") {
			t.Errorf("%d %s %s", event.ResponseStatus.Code, event.Verb, event.RequestURI)
		}
		if event.ObjectRef != nil && event.ObjectRef.Resource == "kafkas" {
			pages++
		}
	}
	if pages != 1 {
		t.Errorf("%d lists of Kafkas", pages)
	}
}

// A user who may not list one of the kinds gets an error that names it, after the summary of the others.
func TestStoredWithoutRights(t *testing.T) {
	role := rendered[rbacv1.ClusterRole](t, "ClusterRole", "quaymaster-audit")
	role.ObjectMeta = metav1.ObjectMeta{Name: "halfway"}
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "kafkas") })
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "halfway"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "halfway"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "halfway"}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := shared.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig, err := shared.UserKubeconfig("halfway")
	if err != nil {
		t.Fatal(err)
	}
	out := quayctl(t, "audit", "--kubeconfig="+kubeconfig)
	const want = "quayctl audit: permission to list kafkas.kafka.strimzi.io is required; ask an administrator to grant it: "
	summary, problem, _ := strings.Cut(out.Stderr, "\n")
	if out.Code != 2 || !strings.Contains(summary, " objects") || !strings.HasPrefix(problem, want) || strings.Count(problem, "\n") != 1 {
		t.Errorf("exit code %d, stdout %q, stderr %q", out.Code, out.Stdout, out.Stderr)
	}
}
