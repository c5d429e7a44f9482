package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	engine "quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/persistentvolume"
	"quaymaster.dev/webhook/persistentvolumeclaim"
	"quaymaster.dev/webhook/service"
)

const dlb = "service.beta.kubernetes.io/dlb-"

// call is one kind of request: a webhook and the body that an API server sends it.
type call struct {
	name     string
	admitter webhook.Admitter
	body     []byte
	// allocations is how many objects one request allocates, from the body to the response.
	allocations float64
}

// calls returns what happens in a cluster. The bodies are those that kube-apiserver 1.36.3 sent, with managedFields, and
// in some cases with other annotations.
func calls(t testing.TB) []call {
	t.Helper()
	own := review.Own("mycloud.io/dlb", true)
	all, err := review.New(catalog.Options{DefaultClass: true, Catalogs: library.BuiltIn().Services()})
	if err != nil {
		t.Fatal(err)
	}
	aws, err := review.New(catalog.Options{DefaultClass: true, Catalogs: []string{"aws-lbc"}})
	if err != nil {
		t.Fatal(err)
	}
	validate := func(r review.Reviewer, matching int) webhook.Admitter {
		return service.NewValidator(service.Options{Reviewer: r, Policies: matchingPolicies(t, matching)})
	}
	mutate := func(r review.Reviewer, matching int) webhook.Admitter {
		return service.NewMutator(service.Options{Reviewer: r, Policies: matchingPolicies(t, matching)})
	}
	create, update := captured(t, "service-create", nil), captured(t, "service-update", nil)
	defaulted := captured(t, "service-create", map[string]string{dlb + "listener-maxqps": "10000", dlb + "listener-idle-timeout": "60s"})
	claims := persistentvolumeclaim.Options{Classes: storage{}, Volumes: storage{}}
	hundred := map[string]string{}
	for i := range 94 {
		hundred[fmt.Sprintf("example.com/annotation-%d", i)] = string(bytes.Repeat([]byte("x"), 290))
	}
	return []call{
		{"create", validate(own, 0), defaulted, 42},
		{"create, 1 policy", validate(own, 1), defaulted, 42},
		{"create, 10 policies", validate(own, 10), defaulted, 42},
		{"create, all catalogs", validate(all, 0), defaulted, 91},
		{"create, denied for 1 finding", validate(own, 0), captured(t, "service-create", map[string]string{dlb + "scheduler": "fastest"}), 93},
		{"create, denied for 4 findings", validate(own, 0), captured(t, "service-create", map[string]string{
			dlb + "scheduler": "fastest", dlb + "listener-maxqps": "many", dlb + "network-tpye": "public", dlb + "listener-maxconn.ftp": "1",
		}), 238},
		{"create for AWS", validate(aws, 0), captured(t, "service-create", map[string]string{
			"service.beta.kubernetes.io/aws-load-balancer-type": "external", "service.beta.kubernetes.io/aws-load-balancer-nlb-target-type": "ip",
			"service.beta.kubernetes.io/aws-load-balancer-scheme": "internet-facing",
		}), 41},
		{"create, 100 annotations in 32 KiB", validate(own, 0), captured(t, "service-create", hundred), 252},
		{"update", validate(own, 0), update, 69},
		{"update, 1 policy", validate(own, 1), update, 107},
		{"update, 10 policies", validate(own, 10), update, 129},
		{"mutate", mutate(own, 0), create, 79},
		{"mutate, nothing to add", mutate(own, 0), defaulted, 42},
		{"mutate, 1 policy", mutate(own, 1), create, 95},
		{"mutate, 10 policies", mutate(own, 10), create, 106},
		{"mutate volume", persistentvolume.NewMutator(persistentvolume.MutatorOptions{Labeler: storage{}}), captured(t, "persistentvolume-create", nil), 61},
		{"mutate claim", persistentvolumeclaim.NewMutator(claims), captured(t, "persistentvolumeclaim-create", nil), 29},
		{"validate claim", persistentvolumeclaim.NewValidator(claims), captured(t, "persistentvolumeclaim-update", nil), 32},
	}
}

// captured returns a body from testdata, with some annotations of the object set.
func captured(t testing.TB, name string, annotations map[string]string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil || len(annotations) == 0 {
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Fatal(err)
	}
	object := body["request"].(map[string]any)["object"].(map[string]any)
	set := object["metadata"].(map[string]any)["annotations"].(map[string]any)
	for key, value := range annotations {
		set[key] = value
	}
	raw, err = json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// everywhere are policies that apply to every namespace.
type everywhere []*engine.Policy

func (e everywhere) Applicable(context.Context, string) ([]*engine.Policy, error) { return e, nil }

// matchingPolicies returns that many policies for each namespace, with a default and rules that the Services satisfy.
func matchingPolicies(t testing.TB, n int) everywhere {
	t.Helper()
	var all everywhere
	for i := range n {
		p := &v1alpha1.LoadBalancerPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("limits-%d", i)}}
		p.Spec.Defaults = map[string]string{maxQPS: fmt.Sprint(5000 + i)}
		p.Spec.Rules = []v1alpha1.Rule{
			{Annotation: maxQPS, Max: new(intstr.FromInt32(20000))}, {Annotation: dlb + "network-type", Allowed: []string{"public", "private"}},
		}
		compiled, findings := engine.Compile(p)
		if len(findings) > 0 {
			t.Fatal(findings)
		}
		all = append(all, compiled)
	}
	return all
}

// server returns a function that serves the request once.
func (c *call) server(t testing.TB) func() {
	t.Helper()
	metrics := webhook.NewMetrics(prometheus.NewRegistry())
	handler := webhook.NewHandler(webhook.HandlerOptions{
		Name: "benchmark", Admitter: c.admitter, Limit: webhook.NewLimit(1), Metrics: metrics,
		Clock: clock.RealClock{},
	})
	r, err := http.NewRequestWithContext(klog.NewContext(t.Context(), klog.Logger{}), http.MethodPost, "/?timeout=3s", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(c.body))
	reader := bytes.NewReader(c.body)
	w := &discarding{header: http.Header{}}
	return func() {
		reader.Reset(c.body)
		r.Body = io.NopCloser(reader)
		if handler.ServeHTTP(w, r); w.status != 0 {
			t.Fatalf("status %d", w.status)
		}
	}
}

// discarding discards the response and records a status other than 200.
type discarding struct {
	header http.Header
	status int
}

func (w *discarding) Header() http.Header         { return w.header }
func (w *discarding) Write(p []byte) (int, error) { return len(p), nil }
func (w *discarding) WriteHeader(status int)      { w.status = status }
