package app_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"quaymaster.dev/provider/plan"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/kubeapi"
)

// planFlags starts a cluster with the Services, and a cloud, and returns the flags that name them.
func planFlags(t *testing.T, services ...*corev1.Service) (flags []string, running *cloud.Cloud) {
	t.Helper()
	server, running := kubeapi.Start(t), cloud.Start(t, 0)
	api := server.Client(t)
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "c1a5"}}
	if _, err := api.CoreV1().Namespaces().Create(t.Context(), system, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, svc := range services {
		if _, err := api.CoreV1().Services(svc.Namespace).Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	front := httptest.NewServer(server)
	t.Cleanup(front.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: front.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return []string{"--kubeconfig", kubeconfig, "--fingerprint=abc", "--cloud-config", cloudConfig(t, running.Endpoint)}, running
}

func cloudConfig(t *testing.T, endpoint string) string {
	t.Helper()
	dir := t.TempDir()
	file, token := filepath.Join(dir, "cloud.yaml"), filepath.Join(dir, "token")
	for name, text := range map[string]string{
		token: cloud.Token, file: "clusterID: dev\nendpoint: " + endpoint + "\ntokenFile: " + token + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func TestPlanWithoutChanges(t *testing.T) {
	flags, _ := planFlags(t)
	code, stdout, stderr := run(t, append([]string{"plan"}, flags...)...)
	if code != 0 || stdout != "changes: 0; waiting: 0\n" || stderr != "" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestPlanWithChanges(t *testing.T) {
	flags, running := planFlags(t, builder.Service())
	code, stdout, _ := run(t, append([]string{"plan"}, flags...)...)
	for _, want := range []string{
		"ingress nodes: services refer to the group, which does not exist yet\n  POST /v1/node-groups\n", "Idempotency-Key: ",
		`{"name":"dev-default","tags":{"quaymaster.dev/cluster-uid":"c1a5"`, "waits: node group", "changes: 1; waiting: 1\n",
	} {
		if code != 2 || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, want %q in:\n%s", code, want, stdout)
		}
	}
	code, stdout, _ = run(t, append([]string{"plan", "-o", "json"}, flags...)...)
	var made plan.Plan
	if err := json.Unmarshal([]byte(stdout), &made); code != 2 || err != nil || len(made.Changes) != 1 || len(made.Waiting) != 1 {
		t.Errorf("exit code %d, %v:\n%s", code, err, stdout)
	}
	if writes := cloud.Writes(running.Calls()); len(writes) > 0 {
		t.Errorf("a plan wrote: %v", writes)
	}
}

// TestPlanFailures: exit code 2 means changes, so that no error may have it.
func TestPlanFailures(t *testing.T) {
	flags, _ := planFlags(t)
	unreachable := append(append([]string{}, flags[:3]...), "--cloud-config", cloudConfig(t, "http://127.0.0.1:1"))
	for want, args := range map[string][]string{
		`--cloud-config is required`:            flags[:2],
		`--drift must be repair, report or off`: append([]string{"--drift=fix"}, flags...),
		`--cluster-cidr must be a CIDR such`:    append([]string{"--cluster-cidr=10"}, flags...),
		`unknown flag`:                          {"--nothing"},
		`unknown argument "web"`:                append([]string{"web"}, flags...),
		`connection refused`:                    unreachable,
	} {
		code, stdout, stderr := run(t, append([]string{"plan"}, args...)...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q, want %q", args, code, stdout, stderr, want)
		}
	}
}
