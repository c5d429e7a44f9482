package template_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	engine "quaymaster.dev/internal/rules/template"
	"quaymaster.dev/test/harness/admission"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/template"
)

const (
	good = "load-balancer.hetzner.cloud/location"
	typo = "load-balancer.hetzner.cloud/lokation"
)

type policies struct{ err error }

func (p policies) Applicable(context.Context, string) ([]*policy.Policy, error) { return nil, p.err }

func validator(t testing.TB, err error, catalogs ...string) webhook.Admitter {
	t.Helper()
	reviewer, problem := review.New(catalog.Options{Catalogs: catalogs})
	if problem != nil {
		t.Fatal(problem)
	}
	return template.NewValidator(template.Options{Reviewer: reviewer, Policies: policies{err}, Templates: engine.BuiltIn()})
}

// object returns the JSON of an object.
func object(apiVersion, kind, rest string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"x","namespace":"shop","managedFields":[{"a":[{}]}]},%s}`, apiVersion, kind, rest)
}

func gateway(annotations string) string {
	return object("gateway.networking.k8s.io/v1", "Gateway", `"spec":{"listeners":[{"port":80}],"infrastructure":{"labels":{"a":"b"},"annotations":`+annotations+`}}`)
}

func kafka(listeners ...string) string {
	return object("kafka.strimzi.io/v1", "Kafka", `"spec":{"zookeeper":null,"kafka":{"listeners":[`+strings.Join(listeners, ",")+`]}}`)
}

func listener(kind, bootstrap, brokers string) string {
	return `{"configuration":{"bootstrap":{"annotations":` + bootstrap + `},"brokers":[` + brokers + `]},"name":"n","type":"` + kind + `"}`
}

func ingress(annotations string) string {
	return `{"kind":"Ingress","apiVersion":"networking.k8s.io/v1","metadata":{"name":"x","annotations":` + annotations + `}}`
}

// routed returns an Ingress whose spec has a certificate and the backend shop behind a number of others.
func routed(annotations string, others int) string {
	return `{"kind":"Ingress","apiVersion":"networking.k8s.io/v1","metadata":{"name":"x","annotations":` + annotations + `},` +
		`"spec":{"tls":[{"hosts":["a"],"secretName":"shop"}],"rules":[{"http":{"paths":[` +
		strings.Repeat(`{"path":"/","backend":{"service":{"name":"web","port":{"number":80}}}},`, others) +
		`{"path":"/shop","backend":{"service":{"name":"shop","port":{"name":"use-annotation"}}}}]}}]}}`
}

func annotations(pairs ...string) string {
	var all []string
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, fmt.Sprintf("%q:%q", pairs[i], pairs[i+1]))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// ask returns the response to a creation or, with an old object, to an update.
func ask(t testing.TB, by webhook.Admitter, oldObject, newObject string) *admissionv1.AdmissionResponse {
	t.Helper()
	req := &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "shop", Object: runtime.RawExtension{Raw: []byte(newObject)},
	}
	if oldObject != "" {
		req.Operation, req.OldObject.Raw = admissionv1.Update, []byte(oldObject)
	}
	response, err := admission.Call(t.Context(), t, by, req)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// An object is refused for the annotations of a load balancer that a controller will create, at their paths. An update is
// only refused for what it introduces.
func TestValidator(t *testing.T) {
	bad := annotations(good, "fsn1", typo, "fsn1", "example.com/x", "y")
	unknownKey := "[" + typo + "]"
	action := func(backend string) string {
		return annotations("alb.ingress.kubernetes.io/actions."+backend, `{"type":"redirect","redirectConfig":{"statusCode":"HTTP_301"}}`)
	}
	redirect := annotations("appgw.ingress.kubernetes.io/ssl-redirect", "true")
	for name, tc := range map[string]struct {
		old, object string
		denied      []string
		warnings    int
	}{
		"valid Gateway":              {object: gateway(annotations(good, "fsn1"))},
		"Gateway":                    {object: gateway(bad), denied: []string{"spec.infrastructure.annotations" + unknownKey}},
		"Gateway that was bad":       {old: gateway(bad), object: gateway(bad), warnings: 1},
		"Gateway that becomes bad":   {old: gateway(annotations(good, "fsn1")), object: gateway(bad), denied: []string{"spec.infrastructure.annotations" + unknownKey}},
		"Gateway with another value": {old: gateway(annotations(typo, "a")), object: gateway(annotations(typo, "b")), denied: []string{"spec.infrastructure.annotations" + unknownKey}},
		"Gateway without any":        {object: object("gateway.networking.k8s.io/v1", "Gateway", `"spec":{"infrastructure":null}`)},
		"annotations of no object":   {object: gateway(`["x"]`)},
		"Gateway of another group":   {object: object("networking.istio.io/v1", "Gateway", `"spec":{"infrastructure":{"annotations":`+bad+`}}`)},
		"a Service":                  {object: `{"apiVersion":"v1","kind":"Service","metadata":{"annotations":` + bad + `}}`},
		"being deleted": {object: `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"Gateway","metadata":{"deletionTimestamp":"2026-01-02T03:04:05Z"},` +
			`"spec":{"infrastructure":{"annotations":` + bad + `}}}`},
		"Kafka": {
			object: kafka(listener("internal", bad, ""), listener("loadbalancer", "{}", `{},{"annotations":`+bad+`}`)),
			denied: []string{"spec.kafka.listeners[1].configuration.brokers[1].annotations" + unknownKey},
		},
		"Kafka whose listener moves": {
			old: kafka(listener("loadbalancer", bad, "")), object: kafka(listener("internal", "{}", ""), listener("loadbalancer", bad, "")), warnings: 1,
		},
		"Kafka with one more": {
			old: kafka(listener("loadbalancer", bad, "")), object: kafka(listener("loadbalancer", bad, ""), listener("loadbalancer", bad, "")),
			denied: []string{"spec.kafka.listeners[1].configuration.bootstrap.annotations" + unknownKey}, warnings: 1,
		},
		"Kafka that was internal": {
			old: kafka(listener("internal", bad, "")), object: kafka(listener("loadbalancer", bad, "")),
			denied: []string{"spec.kafka.listeners[0].configuration.bootstrap.annotations" + unknownKey},
		},
		"Ingress":              {object: ingress(annotations("alb.ingress.kubernetes.io/scheme", "public")), denied: []string{"metadata.annotations[alb.ingress.kubernetes.io/scheme]"}},
		"Ingress of a Service": {object: ingress(bad)},
		"action of a backend":  {object: routed(action("shop"), 1)},
		"action of no backend": {object: routed(action("ship"), 1), warnings: 1},
		"of a large Ingress":   {object: routed(action("ship"), 1000)},
		"redirect with TLS":    {object: routed(redirect, 0)},
		"redirect without": {
			old: routed(redirect, 0), object: strings.Replace(routed(redirect, 0), `"tls"`, `"lts"`, 1),
			denied: []string{"metadata.annotations[appgw.ingress.kubernetes.io/ssl-redirect]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, validator(t, nil, "hcloud", "alb", "agic"), tc.old, tc.object)
			var denied []string
			if !got.Allowed {
				for _, cause := range got.Result.Details.Causes {
					denied = append(denied, cause.Field)
				}
			}
			if diff := cmp.Diff(tc.denied, denied); diff != "" || len(got.Warnings) != tc.warnings {
				t.Errorf("(-want +got):\n%s\n%+v", diff, got)
			}
		})
	}
}

// Catalogs that are not selected do not matter.
func TestOtherCatalogs(t *testing.T) {
	for _, object := range []string{gateway(annotations(typo, "x")), ingress(annotations("alb.ingress.kubernetes.io/scheme", "public"))} {
		if got := ask(t, validator(t, nil, "metallb"), "", object); !got.Allowed || len(got.Warnings) > 0 {
			t.Errorf("%+v", got)
		}
	}
}

// While policies are not known, catalogs still decide.
func TestPoliciesAreNotAvailable(t *testing.T) {
	by := validator(t, errors.New("cache is not synced"), "hcloud")
	if got := ask(t, by, "", gateway(annotations(good, "fsn1"))); !got.Allowed || len(got.Warnings) != 1 {
		t.Errorf("%+v", got)
	}
	if got := ask(t, by, "", gateway(annotations(typo, "fsn1"))); got.Allowed || len(got.Warnings) != 1 {
		t.Errorf("%+v", got)
	}
}

// Of an object that is too large, only a part is validated: it is admitted with a warning, because the Services are
// validated, too.
func TestTooLarge(t *testing.T) {
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("example.com/%d", i), "")
	}
	valid := `{"annotations":` + annotations(good, "fsn1") + `}`
	for name, object := range map[string]string{
		"Services":    kafka(listener("loadbalancer", "{}", strings.Repeat(valid+",", 100)+valid)),
		"annotations": kafka(listener("loadbalancer", "{}", `{"annotations":`+annotations(many...)+`},`+valid)),
		"elements":    kafka(listener("loadbalancer", annotations(good, "fsn1"), strings.Repeat("{},", 1000)+"{}")),
		"bytes":       gateway(annotations(good, "fsn1", "example.com/x", strings.Repeat("x", 256<<10))),
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, validator(t, nil, "hcloud"), "", object)
			if !got.Allowed || len(got.Warnings) != 1 || got.AuditAnnotations["warned"] != review.IDTooManyTemplates {
				t.Errorf("%+v", got)
			}
		})
	}
}
