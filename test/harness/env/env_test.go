package env

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestControlPlane(t *testing.T) {
	e := Start(t, Options{ControllerManager: true})
	ctx := t.Context()

	// Only kube-controller-manager creates the default ServiceAccount.
	Eventually(t, time.Minute, "the default ServiceAccount", func(ctx context.Context) error {
		return e.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "default"}, &corev1.ServiceAccount{})
	})

	t.Run("the unprivileged user edits Services and no cluster-scoped objects", func(t *testing.T) {
		service := "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"
		out, err := Kubectl(ctx, e.DeveloperKubeconfig, service, "apply", "-f", "-")
		if err != nil || out.Code != 0 {
			t.Errorf("apply a Service: %+v, %v", out, err)
		}
		out, err = Kubectl(ctx, e.DeveloperKubeconfig, "", "get", "nodes")
		if err != nil || out.Code != 1 || !strings.Contains(out.Stderr, "Forbidden") {
			t.Errorf("get nodes: %+v, %v, want it forbidden", out, err)
		}
	})

	t.Run("a ServiceAccount has only its own rights", func(t *testing.T) {
		kubeconfig, err := e.ServiceAccountKubeconfig(ctx, "default", "default")
		if err != nil {
			t.Fatal(err)
		}
		config, err := load(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:serviceaccount:default:default") {
			t.Errorf("create a ConfigMap: %v, want it forbidden to the ServiceAccount", err)
		}
	})
}

func TestMissingBinaryNamesTheTarget(t *testing.T) {
	for _, tt := range []struct {
		look func(string) (string, error)
		want string
	}{
		{Tool, "bin/tools/no-such-binary is missing, run `make tool-no-such-binary`"},
		{Program, "bin/no-such-binary is missing, run `make build`"},
	} {
		if _, err := tt.look("no-such-binary"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

func TestToolPrefersAssets(t *testing.T) {
	dir := t.TempDir()
	want := filepath.Join(dir, "etcd")
	if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	if got, err := Tool("etcd"); err != nil || got != want {
		t.Errorf("Tool(etcd) = %q, %v, want %q", got, err, want)
	}
}

func TestPollReportsTheLastAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*pollInterval)
	defer cancel()
	err := Poll(ctx, "rain", func(context.Context) error { return os.ErrNotExist })
	if err == nil || !strings.Contains(err.Error(), "wait for rain: ") || !strings.Contains(err.Error(), os.ErrNotExist.Error()) {
		t.Errorf("Poll() = %v, want what was waited for and the last answer", err)
	}
}

func TestInstalledWebhook(t *testing.T) {
	e := Start(t, Options{})
	ctx := t.Context()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	err = e.InstallChart(ctx, Values{"webhook": map[string]any{
		"url":           WebhookURL(port),
		"failurePolicy": map[string]any{"mutateService": "Fail", "validateService": "Fail"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	webhook, err := e.StartWebhook(ctx, port)
	if err != nil {
		t.Fatal(err)
	}
	bad := "apiVersion: v1\nkind: Service\n" +
		"metadata: {name: bad, annotations: {service.beta.kubernetes.io/dlb-listener-maxqps: fast}}\n" +
		"spec: {type: LoadBalancer, ports: [{port: 80}]}\n"
	create := func() string {
		out, err := Kubectl(ctx, e.DeveloperKubeconfig, bad, "create", "-f", "-")
		if err != nil || out.Code != 1 {
			t.Errorf("create a bad Service: %+v, %v, want exit code 1", out, err)
		}
		return out.Stderr
	}
	const refusal = `The Service "bad" is invalid`
	if got := create(); !strings.HasPrefix(got, refusal) {
		t.Errorf("kubectl: %q, want %q", got, refusal)
	}
	webhook.Kill()
	if got := create(); !strings.Contains(got, "failed calling webhook") {
		t.Errorf("kubectl while no webhook runs: %q, want a failed call", got)
	}
	if err := webhook.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if got := create(); !strings.HasPrefix(got, refusal) {
		t.Errorf("kubectl after the restart: %q, want %q", got, refusal)
	}
}
