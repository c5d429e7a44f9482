package webhook_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/webhook"
	servicewebhook "quaymaster.dev/webhook/service"
)

// trouble is one way of failing to answer.
type trouble struct {
	handler http.Handler
	// message is what the user reads under the policy Fail.
	message string
}

type admitterFunc func(context.Context) (*admissionv1.AdmissionResponse, error)

// admitter returns an Admitter of Services.
func (f admitterFunc) admitter() webhook.Admitter {
	a := servicewebhook.NewMutator(servicewebhook.Options{})
	a.Admit = func(ctx context.Context, _ *webhook.Request) (*admissionv1.AdmissionResponse, error) {
		return f(ctx)
	}
	return a
}

func troubles(t *testing.T) map[string]trouble {
	t.Helper()
	metrics := webhook.NewMetrics(prometheus.NewRegistry())
	options := webhook.HandlerOptions{
		Name: "faulty", Limit: webhook.NewLimit(100), Metrics: metrics, Clock: clock.RealClock{},
		Admitter: admitterFunc(nil).admitter(), // it is not called where there is no other one
	}
	admitted := func(f admitterFunc) http.Handler {
		o := options
		o.Admitter = f.admitter()
		return webhook.NewHandler(o)
	}
	overloaded, misrouted := options, options
	overloaded.Limit = webhook.NewLimit(0)
	misrouted.Admitter.Resource.Resource = "pods"
	return map[string]trouble{
		"panic": {
			admitted(func(context.Context) (*admissionv1.AdmissionResponse, error) { panic("boom") }),
			`an error on the server ("internal error; see the webhook's log") has prevented the request from succeeding`,
		},
		"error": {
			admitted(func(context.Context) (*admissionv1.AdmissionResponse, error) { return nil, errors.New("boom") }),
			`an error on the server ("internal error; see the webhook's log") has prevented the request from succeeding`,
		},
		"too-slow": {
			admitted(func(ctx context.Context) (*admissionv1.AdmissionResponse, error) { <-ctx.Done(); return nil, ctx.Err() }),
			`the server was unable to return a response in the time allotted, but may still be processing the request`,
		},
		// The API server does not repeat the call.
		"overloaded": {webhook.NewHandler(overloaded), `the server is currently unable to handle the request`},
		"misrouted":  {webhook.NewHandler(misrouted), `the server rejected our request for an unknown reason`},
		"not-found":  {http.NotFoundHandler(), `the server could not find the requested resource`},
		"no-server":  {nil, `connection refused`},
	}
}

// Whatever happens to the webhooks, the failure policy decides, and under Ignore no Service is rejected.
func TestFailurePolicies(t *testing.T) {
	all := troubles(t)
	mux := http.NewServeMux()
	for name, trouble := range all {
		if trouble.handler != nil {
			mux.Handle("/"+name+"/", trouble.handler)
		}
	}
	server := httptest.NewUnstartedServer(mux)
	quiet := klog.NewContext(t.Context(), logr.Discard())
	server.Config.BaseContext = func(net.Listener) context.Context { return quiet }
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	removeConfigurations(t, "faulty")
	for name, trouble := range all {
		t.Run(name, func(t *testing.T) {
			url := server.URL + "/" + name
			if trouble.handler == nil {
				port, err := env.FreePort()
				if err != nil {
					t.Fatal(err)
				}
				url = env.WebhookURL(port)
			}
			install := func(policy string) {
				v := values(url, policy)
				v["fullnameOverride"] = "faulty"
				v["certs"] = map[string]any{"mode": "files"}
				v["webhook"].(map[string]any)["caBundle"] = string(authority)
				v["webhook"].(map[string]any)["timeoutSeconds"] = 1
				if err := shared.InstallChart(t.Context(), v); err != nil {
					t.Fatal(err)
				}
			}
			try := func(ctx context.Context) error {
				return shared.Client.Create(ctx, service("unlucky"), client.DryRunAll)
			}
			install("Fail")
			env.Eventually(t, soon, "a refusal under Fail", func(ctx context.Context) error {
				err := try(ctx)
				if err == nil {
					return errors.New("the Service was admitted")
				}
				for _, part := range []string{`failed calling webhook "mutate.service.quaymaster.dev"`, trouble.message} {
					if !strings.Contains(err.Error(), part) {
						return fmt.Errorf("%q does not contain %q", err, part)
					}
				}
				return nil
			})
			install("Ignore")
			env.Eventually(t, soon, "admission under Ignore", try)
		})
	}
	t.Run("metrics", apiServerMetrics)
}

// apiServerMetrics checks that the API server counts as the alerts expect, after a call that failed under Ignore.
func apiServerMetrics(t *testing.T) {
	excluded := service("excluded")
	excluded.Spec.Type = corev1.ServiceTypeClusterIP
	if err := shared.Client.Create(t.Context(), excluded, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	api, err := kubernetes.NewForConfig(shared.Admin)
	if err != nil {
		t.Fatal(err)
	}
	text, err := api.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const name = `.*name="validate\.service\.quaymaster\.dev"`
	for _, series := range []string{
		`apiserver_admission_webhook_fail_open_count{` + name,
		`apiserver_admission_webhook_admission_duration_seconds_count{` + name,
		`apiserver_admission_match_condition_exclusions_total{` + name,
		`apiserver_request_total{code="201",.*group="",resource="services",.*subresource="",verb="POST"`,
	} {
		if !regexp.MustCompile(`(?m)^` + strings.Replace(series, "{", `\{`, 1)).Match(text) {
			t.Errorf("no series %s", series)
		}
	}
}

// removeConfigurations deletes the webhook configurations of an installation at the end of the test, so that they do
// not affect the next one.
func removeConfigurations(t *testing.T, name string) {
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		meta := metav1.ObjectMeta{Name: name}
		for _, object := range []client.Object{
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta},
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta},
		} {
			if err := client.IgnoreNotFound(shared.Client.Delete(ctx, object)); err != nil {
				t.Error(err)
			}
		}
	})
}
