package webhook_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/test/builder"
)

// The webhooks are called only if they may have findings: calls cost every user time.
func TestCallsOfTheAPIServer(t *testing.T) {
	typed := func(kind corev1.ServiceType) *corev1.Service {
		svc := service("counted")
		svc.Spec.Type = kind
		if kind == corev1.ServiceTypeExternalName {
			svc.Spec.ExternalName, svc.Spec.Ports = "example.com", nil
		}
		return svc
	}
	annotate := func(key, value string) func(*corev1.Service) {
		return func(svc *corev1.Service) { svc.Annotations[key] = value }
	}
	change := func(svc *corev1.Service) { svc.Labels = map[string]string{"tier": "front"} }
	tests := map[string]struct {
		service *corev1.Service
		// change is applied to the stored Service; status is true if it is a change of the status.
		change func(*corev1.Service)
		status bool
		// create and update are the numbers of calls.
		create, update int
	}{
		"ClusterIP":                {service: typed(corev1.ServiceTypeClusterIP), change: change},
		"NodePort":                 {service: typed(corev1.ServiceTypeNodePort), change: change},
		"ExternalName":             {service: typed(corev1.ServiceTypeExternalName), change: change},
		"LoadBalancer":             {service: typed(corev1.ServiceTypeLoadBalancer), change: change, create: 2, update: 1},
		"other annotation":         {service: typed(corev1.ServiceTypeLoadBalancer), change: annotate("example.com/note", "x"), create: 2, update: 1},
		"own value of a default":   {service: typed(corev1.ServiceTypeLoadBalancer), change: annotate(loadbalancer.Prefix+"listener-maxqps", "5"), create: 2, update: 2},
		"request for defaults":     {service: typed(corev1.ServiceTypeLoadBalancer), change: annotate(policy.AnnotationRefresh, "1"), create: 2, update: 2},
		"replaced as a whole":      {service: typed(corev1.ServiceTypeLoadBalancer), change: func(svc *corev1.Service) { svc.Annotations = nil }, create: 2, update: 2},
		"becomes a load balancer":  {service: typed(corev1.ServiceTypeClusterIP), change: func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeLoadBalancer }, update: 2},
		"is no load balancer more": {service: typed(corev1.ServiceTypeLoadBalancer), change: func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP }, create: 2, update: 1},
		"status": {
			service: typed(corev1.ServiceTypeLoadBalancer), status: true, create: 2,
			change: func(svc *corev1.Service) {
				svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			start := shared.webhook.Calls(t)
			if err := shared.Client.Create(t.Context(), test.service); err != nil {
				t.Fatal(err)
			}
			created := shared.webhook.Calls(t)
			test.change(test.service)
			var err error
			if test.status {
				err = shared.Client.Status().Update(t.Context(), test.service)
			} else {
				err = shared.Client.Update(t.Context(), test.service)
			}
			if err != nil {
				t.Fatal(err)
			}
			updated := shared.webhook.Calls(t)
			if err := shared.Client.Delete(t.Context(), test.service); err != nil {
				t.Fatal(err)
			}
			deleted := shared.webhook.Calls(t)
			if got := created - start; got != test.create {
				t.Errorf("creation costs %d calls, want %d", got, test.create)
			}
			if got := updated - created; got != test.update {
				t.Errorf("the change costs %d calls, want %d", got, test.update)
			}
			if got := deleted - updated; got != 0 {
				t.Errorf("deletion costs %d calls, want none", got)
			}
		})
	}
}

func TestRefusalsAreCountedByRule(t *testing.T) {
	if err := shared.Client.Create(t.Context(), service("refused", builder.DLB("schedular", "source-ip")), client.DryRunAll); err == nil {
		t.Fatal("not refused")
	}
	metrics := shared.webhook.Scrape(t)
	for _, series := range []string{
		`quaymaster_webhook_findings_total{rule="dlb-unknown-key",severity="error",webhook="validate-service"}`,
		`quaymaster_webhook_request_duration_seconds_bucket{webhook="validate-service",le="5e-05"}`,
		`quaymaster_webhook_certificate_expiration_timestamp_seconds`,
	} {
		if !strings.Contains(metrics, "\n"+series+" ") {
			t.Errorf("metrics lack %s", series)
		}
	}
}
