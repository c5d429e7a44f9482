// Package audit_test tests quayctl audit on a real API server without webhooks, the situation it is made for.
package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// many is more than fits on two pages.
const many = 1010

var shared *env.Env

func TestMain(m *testing.M) {
	os.Exit(env.Main(m, env.Options{}, func(ctx context.Context, e *env.Env) error {
		shared = e
		return fill(ctx)
	}))
}

// service returns a valid Service, changed by options, as it is before the API server has seen it.
func service(name string, options ...builder.ServiceOption) *corev1.Service {
	svc := builder.Service(options...)
	svc.Name, svc.UID = name, ""
	for i := range svc.Spec.Ports {
		svc.Spec.Ports[i].NodePort = 0
	}
	return svc
}

// fill creates a Service, a volume and a claim with problems, and many objects without.
func fill(ctx context.Context) error {
	bad := service("bad", builder.DLB("sheduler", "source-ip"), builder.DLB("listener-maxqps", "0"))
	doubtful := service("doubtful", builder.DLB("ip-mode", "vip"), builder.DLB("listener-protocol", "http"))
	inside := service("inside", builder.DLB("sheduler", "source-ip"))
	inside.Spec.Type = corev1.ServiceTypeClusterIP
	objects := []client.Object{
		bad, doubtful, inside,
		builder.PersistentVolume(func(pv *corev1.PersistentVolume) {
			pv.UID = ""
			pv.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "csi.mycloud.io"}
			pv.Labels = map[string]string{corev1.LabelTopologyZone: "eu-1a____eu-1b", corev1.LabelTopologyRegion: "eu-1"}
		}),
	}
	for i := range many {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("team-%d", i), Labels: map[string]string{"team": strconv.Itoa(i)},
		}})
	}
	var makers errgroup.Group
	makers.SetLimit(8)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: bad.Namespace}}
	if err := client.IgnoreAlreadyExists(shared.Client.Create(ctx, namespace)); err != nil {
		return err
	}
	for _, object := range objects {
		makers.Go(func() error { return shared.Client.Create(ctx, object) })
	}
	if err := makers.Wait(); err != nil {
		return err
	}
	return claim(ctx, bad.Namespace)
}

// claim creates a claim that has less than it requests, of a StorageClass that no longer exists.
func claim(ctx context.Context, namespace string) error {
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("gone"), VolumeName: "data",
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}},
		},
	}
	if err := shared.Client.Create(ctx, pvc); err != nil {
		return err
	}
	pvc.Status.Phase = corev1.ClaimBound
	pvc.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	return shared.Client.Status().Update(ctx, pvc)
}

// audit runs quayctl audit and returns its findings: object, severity and id.
func audit(t *testing.T, kubeconfig string, args ...string) (found []string, out env.Output) {
	t.Helper()
	quayctl, err := env.Program("quayctl")
	if err != nil {
		t.Fatal(err)
	}
	out, err = env.Run(t.Context(), "", quayctl, append([]string{"audit", "--kubeconfig=" + kubeconfig, "-o", "json"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	if out.Code == 2 {
		return nil, out
	}
	var answer struct{ Results []report.Result }
	if err := json.Unmarshal([]byte(out.Stdout), &answer); err != nil {
		t.Fatalf("%v: %s", err, out.Stdout)
	}
	for _, r := range answer.Results {
		if r.File != "" || r.Line != 0 {
			t.Errorf("%+v is in a file", r)
		}
		for _, f := range r.Findings {
			found = append(found, fmt.Sprintf("%s %s: %s %s", r.Object.Kind, r.Object.Name, f.Severity, f.ID))
		}
	}
	slices.Sort(found)
	return found, out
}

var (
	ofServices = []string{"Service bad: error dlb-invalid-value", "Service bad: error dlb-unknown-key", "Service doubtful: warning dlb-ip-mode-vip"}
	ofClaims   = []string{"PersistentVolumeClaim data: warning pvc-class-not-found"}
	ofVolumes  = []string{"PersistentVolume data: error pv-zone-label-invalid"}
)

// Without Quaymaster in the cluster, there are no policies.
func TestAudit(t *testing.T) {
	namespace := builder.Service().Namespace
	for name, tc := range map[string]struct {
		args []string
		want []string
		code int
	}{
		"everything":      {nil, slices.Concat(ofVolumes, ofClaims, ofServices), 1},
		"one namespace":   {[]string{"-n", namespace}, slices.Concat(ofClaims, ofServices), 1},
		"nothing in it":   {[]string{"-n", "team-7"}, nil, 0},
		"another's class": {[]string{"-n", namespace, "--load-balancer-class=example.com/x"}, slices.Concat(ofClaims, ofServices), 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, out := audit(t, shared.AdminKubeconfig, tc.args...)
			if diff := cmp.Diff(tc.want, got); diff != "" || out.Code != tc.code {
				t.Errorf("exit code %d, %s(-want +got):\n%s", out.Code, out.Stderr, diff)
			}
		})
	}
}

// Existing Services violate policies that are created later. The rules reach namespaces on the third page, too.
func TestAuditWithPolicies(t *testing.T) {
	ctx := t.Context()
	if err := shared.InstallChart(ctx, env.Values{"webhook": map[string]any{"enabled": false}}); err != nil {
		t.Fatal(err)
	}
	last := service("last")
	last.Namespace = "team-999"
	policy := &v1alpha1.ClusterLoadBalancerPolicy{ObjectMeta: metav1.ObjectMeta{Name: "tagged"}}
	policy.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "999"}
	policy.Spec.Rules = []v1alpha1.Rule{{Annotation: "service.beta.kubernetes.io/dlb-tags", Required: true}}
	for _, object := range []client.Object{last, policy} {
		if err := shared.Client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := shared.Client.Delete(context.WithoutCancel(ctx), object); err != nil {
				t.Error(err)
			}
		})
	}
	for _, args := range [][]string{{"-n", last.Namespace}, nil} {
		got, _ := audit(t, shared.AdminKubeconfig, args...)
		if want := "Service " + last.Name + ": error policy-required"; !slices.Contains(got, want) {
			t.Errorf("%v: got %q, want %q", args, got, want)
		}
	}
}

// A user without read access to a resource gets an error that names it, and no result for the others.
func TestAuditWithoutRights(t *testing.T) {
	kubeconfig, err := shared.UserKubeconfig("stranger")
	if err != nil {
		t.Fatal(err)
	}
	_, out := audit(t, kubeconfig)
	const want = "quayctl audit: permission to list namespaces is required; ask an administrator to grant it: "
	if out.Code != 2 || out.Stdout != "" || !strings.HasPrefix(out.Stderr, want) || strings.Count(out.Stderr, "\n") != 1 {
		t.Errorf("exit code %d, stdout %q, stderr %q", out.Code, out.Stdout, out.Stderr)
	}
}

// kubectl finds quayctl through its link, and messages use the name of that link.
func TestPlugin(t *testing.T) {
	plugin, err := env.Program("kubectl-quay")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(plugin)+string(os.PathListSeparator)+os.Getenv("PATH"))
	kubectl, err := env.Tool("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"quay", "lint", "--help"}, 0, "  kubectl quay lint service.yaml\n"},
		{[]string{"quay", "lint"}, 2, "kubectl quay lint: no input"},
		{[]string{"quay", "audit", "--kubeconfig=" + shared.AdminKubeconfig}, 1, "OBJECT "},
		{[]string{"quay", "lint", "-f", "-"}, 1, "stdin:4:28: error: "},
	} {
		const manifest = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: LoadBalancer, prots: []}\n"
		out, err := env.Run(t.Context(), manifest, kubectl, tc.args...)
		if err != nil {
			t.Fatal(err)
		}
		if out.Code != tc.code || !strings.Contains(out.Stdout+out.Stderr, tc.want) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", tc.args, out.Code, out.Stdout, out.Stderr)
		}
	}
}
