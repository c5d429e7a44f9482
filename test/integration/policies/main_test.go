// Package policies_test tests policies on a real API server with both roles of Quaymaster and the cloud, in the way
// platform teams and their users use them.
package policies_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/env"
)

const (
	// soon bounds how long webhooks and controllers take to act on a change, with a margin for slow machines.
	soon = 20 * time.Second

	prefix    = "service.beta.kubernetes.io/dlb-"
	maxQPS    = prefix + "listener-maxqps"
	scheduler = prefix + "scheduler"
	// defaulted records the origins of defaults; a change of refresh requests current ones.
	defaulted = "quaymaster.dev/defaulted"
	refresh   = "quaymaster.dev/refresh-defaults"
	// unreviewed labels namespaces whose Services no webhook sees: the chart's namespaceSelector excludes them.
	unreviewed = "example.com/unreviewed"
)

// fixture is shared by the tests of this package.
type fixture struct {
	*env.Env
	cloud       *cloudapi.Client
	webhook     *env.Webhook
	controllers *env.Server
}

var shared fixture

func TestMain(m *testing.M) { os.Exit(env.Main(m, env.Options{}, setup)) }

func setup(ctx context.Context, e *env.Env) error {
	shared.Env = e
	port, err := env.FreePort()
	if err != nil {
		return err
	}
	if err := e.InstallChart(ctx, values(port, "Ignore")); err != nil {
		return err
	}
	// No webhook validates policies yet.
	if err := storeMistaken(ctx, e.Client); err != nil {
		return err
	}
	if shared.webhook, err = e.StartWebhook(ctx, port); err != nil {
		return err
	}
	if err := e.InstallChart(ctx, values(port, "Fail")); err != nil {
		return err
	}
	mycloud, err := e.StartMycloud(ctx, "")
	if err != nil {
		return err
	}
	shared.cloud, err = cloudapi.New(cloudapi.Options{Endpoint: mycloud.Endpoint, Token: cloudapi.StaticToken(mycloud.Token)})
	if err != nil {
		return err
	}
	shared.controllers, err = e.StartControllers(ctx, env.CloudConfigFor("dev", mycloud))
	if err != nil {
		return err
	}
	return env.Poll(ctx, "the API server to call the webhooks", func(ctx context.Context) error {
		return called(ctx, e.Client)
	})
}

// values returns the values of the chart for webhooks on a port, with a failure policy for the reviews of policies.
// Those of Services fail, so that a webhook that is down is not mistaken for one that admits.
func values(port int, policies string) env.Values {
	return env.Values{
		"webhook": map[string]any{
			"url": env.WebhookURL(port),
			"failurePolicy": map[string]any{
				"mutateService": "Fail", "validateService": "Fail", "validatePolicy": policies,
			},
			"namespaceSelector": map[string]any{"matchExpressions": []any{
				map[string]any{"key": unreviewed, "operator": "DoesNotExist"},
			}},
		},
		"cloudController": map[string]any{"clusterCIDR": env.ClusterCIDR},
		"cloud":           map[string]any{"network": map[string]any{"routeTableID": "rt-main"}},
	}
}

// called reports whether the API server calls the webhooks for Services and for policies.
func called(ctx context.Context, kube client.Client) error {
	probe := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "probe"}
	svc := &corev1.Service{ObjectMeta: *probe.DeepCopy(), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}},
	}}
	if err := kube.Create(ctx, svc, client.DryRunAll); err != nil {
		return err
	}
	if svc.Annotations[maxQPS] == "" {
		return errors.New("a Service gets no defaults yet")
	}
	bad := &v1alpha1.LoadBalancerPolicy{ObjectMeta: *probe.DeepCopy()}
	bad.Spec.Defaults = map[string]string{prefix + "nothing": "x"}
	if err := kube.Create(ctx, bad, client.DryRunAll); !apierrors.IsInvalid(err) {
		return fmt.Errorf("an invalid policy: %w", err)
	}
	return nil
}
