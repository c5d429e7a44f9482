// Package operations_test tests the tasks of operators on a real API server with the built programs: diagnose, tear
// down, uninstall, and run the controllers next to another cloud's.
package operations_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/test/harness/env"
)

// soon bounds how long the API server takes to notice a change of configurations and rights, and the controllers to
// notice that the cloud answers again, with a margin for slow machines.
const soon = time.Minute

// fixture is shared by the tests of this package: an installation without problems.
type fixture struct {
	*env.Env
	webhook     *env.Webhook
	controllers *env.Server
	cloud       *env.Mycloud
	cloudConfig string
	port        int
}

var shared fixture

func TestMain(m *testing.M) { os.Exit(env.Main(m, env.Options{}, setup)) }

// values returns the values of the chart for webhooks on a port of loopback.
func values(port int) env.Values {
	return env.Values{
		"certs": map[string]any{"mode": "self-signed"},
		"cloud": map[string]any{"clusterID": "dev", "endpoint": shared.cloud.Endpoint, "token": "unused"},
		"webhook": map[string]any{
			"url": env.WebhookURL(port), "failurePolicy": map[string]any{"mutateService": "Fail", "validateService": "Fail"},
		},
	}
}

func setup(ctx context.Context, e *env.Env) error {
	shared.Env = e
	var err error
	if shared.port, err = env.FreePort(); err != nil {
		return err
	}
	if shared.cloud, err = e.StartMycloud(ctx, ""); err != nil {
		return err
	}
	if err := install(ctx); err != nil {
		return err
	}
	config := env.CloudConfigFor("dev", shared.cloud)
	if shared.cloudConfig, err = e.CloudConfigArg("doctor", config); err != nil {
		return err
	}
	if shared.webhook, err = e.StartWebhook(ctx, shared.port); err != nil {
		return err
	}
	if shared.controllers, err = e.StartControllers(ctx, config, "--leader-elect=true"); err != nil {
		return err
	}
	return env.Poll(ctx, "nothing to fail", func(ctx context.Context) error {
		_, levels, err := examine(ctx)
		for check, level := range levels {
			if level == doctor.Fail || level == doctor.Warn {
				return fmt.Errorf("%s: %s", check, level)
			}
		}
		return err
	})
}

// install applies the chart, and restores what a test has removed. The Deployment of the controllers holds their flags.
// Nothing here creates its pods; its status says that they are ready, as the process is.
func install(ctx context.Context) error { return installWith(ctx, values(shared.port)) }

// installWith is install with other values.
func installWith(ctx context.Context, v env.Values) error {
	if err := shared.InstallChart(ctx, v); err != nil {
		return err
	}
	objects, err := env.RenderChart(v)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if kind := object.GetKind(); kind != "Deployment" && kind != "ConfigMap" {
			continue
		}
		apply := client.ApplyConfigurationFromUnstructured(object)
		if err := shared.Client.Apply(ctx, apply, client.FieldOwner("operations"), client.ForceOwnership); err != nil {
			return err
		}
	}
	return reportReady(ctx, "quaymaster-controllers", 2)
}

// reportReady writes the number of ready pods into the status of a Deployment.
func reportReady(ctx context.Context, name string, ready int) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}}
	patch := fmt.Sprintf(`{"status":{"observedGeneration":1000,"replicas":%d,"readyReplicas":%d}}`, ready, ready)
	return shared.Client.Status().Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// program runs one of the built programs until it ends.
func program(ctx context.Context, name string, args ...string) (env.Output, error) {
	path, err := env.Program(name)
	if err != nil {
		return env.Output{}, err
	}
	return env.Run(ctx, "", path, args...)
}

// examine runs quayctl doctor as the administrator and returns its results, and their levels by check.
func examine(ctx context.Context, args ...string) ([]doctor.Result, map[string]doctor.Level, error) {
	out, err := program(ctx, "quayctl", append([]string{
		"doctor", "--kubeconfig=" + shared.AdminKubeconfig, shared.cloudConfig, "-o", "json",
	}, args...)...)
	if err != nil {
		return nil, nil, err
	}
	var report struct {
		OK     bool
		Checks []doctor.Result
	}
	if err := json.Unmarshal([]byte(out.Stdout), &report); err != nil {
		return nil, nil, fmt.Errorf("%w: %s", err, out.Stderr)
	}
	if report.OK != (out.Code == 0) {
		return nil, nil, fmt.Errorf("ok is %t, the exit code %d", report.OK, out.Code)
	}
	levels := map[string]doctor.Level{}
	for _, r := range report.Checks {
		levels[r.Check] = r.Level
	}
	return report.Checks, levels, nil
}

// wait waits until the doctor reports these levels, and returns its results.
func wait(t *testing.T, want map[string]doctor.Level, args ...string) map[string]doctor.Result {
	t.Helper()
	found := map[string]doctor.Result{}
	env.Eventually(t, soon, "the diagnosis", func(ctx context.Context) error {
		results, levels, err := examine(ctx, args...)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, levels); diff != "" {
			return fmt.Errorf("(-want +got):\n%s\n%+v", diff, results)
		}
		for _, r := range results {
			found[r.Check] = r
		}
		return nil
	})
	return found
}

// service returns a valid Service in the namespace default.
func service(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "web", Port: 80}}},
	}
}
