package availability_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/authority"
	"quaymaster.dev/test/harness/env"
)

// The configuration of docs/operations/client-authentication.md, with the name of the user for a URL.
const (
	admissionConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: MutatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %[1]s
- name: ValidatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %[1]s
`
	callers = `apiVersion: v1
kind: Config
users:
- name: 127.0.0.1:%d
  user:
    client-certificate: %s
    client-key: %s
`
)

// TestClientCertificates lets an API server present a certificate, as the guide says, to webhooks that require one.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	from, until := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	dir := t.TempDir()
	ca := authority.New(t, "callers", from, until)
	trust, _, err := ca.Write(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.IssueClient("quaymaster-caller", nil, from, until)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := pair.Write(dir, "caller")
	if err != nil {
		t.Fatal(err)
	}
	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	config, kubeconfig := filepath.Join(dir, "admission.yaml"), filepath.Join(dir, "webhooks.kubeconfig")
	if err := errors.Join(
		os.WriteFile(config, fmt.Appendf(nil, admissionConfig, kubeconfig), 0o600),
		os.WriteFile(kubeconfig, fmt.Appendf(nil, callers, port, cert, key), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	e := env.Start(t, env.Options{APIServerArgs: []string{"--admission-control-config-file=" + config}})
	if err := e.InstallChart(t.Context(), env.Values{"webhook": map[string]any{
		"url": env.WebhookURL(port), "failurePolicy": map[string]any{"mutateService": "Fail", "validateService": "Fail"},
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.StartWebhook(t.Context(), port, "--client-ca-file="+trust, "--client-allowed-names=quaymaster-caller"); err != nil {
		t.Fatal(err)
	}
	// Both webhooks fail closed, so a Service that is accepted has been reviewed.
	create := func(ctx context.Context, options ...builder.ServiceOption) error {
		svc := builder.Service(options...)
		svc.Namespace, svc.Name, svc.UID = "default", "web", ""
		for i := range svc.Spec.Ports {
			svc.Spec.Ports[i].NodePort = 0
		}
		return e.Client.Create(ctx, svc, client.DryRunAll)
	}
	env.Eventually(t, soon, "a valid Service to be accepted", func(ctx context.Context) error { return create(ctx) })
	err = create(t.Context(), builder.DLB("scheduler", "fastest"))
	if err == nil || !strings.Contains(err.Error(), "must be one of") {
		t.Errorf("an invalid Service: %v", err)
	}
}
