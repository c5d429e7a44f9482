package env

import (
	"os"
	"testing"
)

func TestTmp(t *testing.T) {
	e := Start(t, Options{})
	port, _ := FreePort()
	if err := e.InstallChart(t.Context(), Values{"webhook": map[string]any{"url": WebhookURL(port), "failurePolicy": map[string]any{"mutateService": "Fail", "validateService": "Fail"}}}); err != nil {
		t.Fatal(err)
	}
	w, err := e.StartWebhook(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	bad, _ := os.ReadFile("../../examples/service-bad.yaml")
	good, _ := os.ReadFile("../../examples/service-good.yaml")
	out, err := Kubectl(t.Context(), e.DeveloperKubeconfig, string(bad), "apply", "-f", "-")
	t.Logf("%+v %v", out, err)
	out, err = Kubectl(t.Context(), e.DeveloperKubeconfig, string(good), "apply", "-f", "-", "-o", "yaml")
	t.Logf("%s%s %v", out.Stdout, out.Stderr, err)
	w.Kill()
	out, err = Kubectl(t.Context(), e.DeveloperKubeconfig, string(bad), "apply", "-f", "-")
	t.Logf("%+v %v", out, err)
	if err := w.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err = Kubectl(t.Context(), e.DeveloperKubeconfig, string(bad), "apply", "-f", "-")
	t.Logf("%+v %v", out, err)
}
