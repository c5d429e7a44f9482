package review_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/review"
	"quaymaster.dev/test/builder"
)

// The search for the nearest key is bounded: an object with more unknown keys, or with longer ones, was not mistyped.
func TestSuggestionsAreBounded(t *testing.T) {
	const prefix = "load-balancer.hetzner.cloud/"
	svc := builder.Service(builder.Annotation(prefix+"locatio"+strings.Repeat("n", 200), "x"))
	for i := range 30 {
		builder.Annotation(fmt.Sprintf("%slocation%d", prefix, i%10*100+i/10), "x")(svc)
	}
	suggested := 0
	findings := reviewer(t, "hcloud").Review(nil, svc, nil)
	for _, f := range findings {
		if strings.HasPrefix(f.Remedy, "did you mean") {
			suggested++
			if len(f.Field) > 200 {
				t.Errorf("a suggestion for a key of %d bytes: %s", len(f.Field), f.Remedy)
			}
		}
	}
	if len(findings) != len(svc.Annotations) || suggested == 0 || suggested > 20 {
		t.Errorf("%d findings and %d suggestions for %d unknown keys", len(findings), suggested, len(svc.Annotations))
	}
}

// BenchmarkReviewHostile reports what one request with keys or values of the maximum size costs.
func BenchmarkReviewHostile(b *testing.B) {
	many := builder.Service()
	for i := range 5000 {
		builder.Annotation(fmt.Sprintf("service.beta.kubernetes.io/load-balancer-something-%d", i), "x")(many)
	}
	for name, svc := range map[string]struct{ options []builder.ServiceOption }{
		"key":   {[]builder.ServiceOption{builder.Annotation("service.beta.kubernetes.io/"+strings.Repeat("x", 256<<10), "x")}},
		"value": {[]builder.ServiceOption{builder.DLB("scheduler", strings.Repeat("x", 256<<10))}},
		"ranges": {[]builder.ServiceOption{
			builder.Annotation("service.beta.kubernetes.io/load-balancer-source-ranges", strings.Repeat(",", 256<<10)+"x"),
		}},
		"keys": {[]builder.ServiceOption{func(s *corev1.Service) { s.Annotations = many.Annotations }}},
	} {
		b.Run(name, func(b *testing.B) {
			r, err := review.New(catalog.Options{Catalogs: catalog.Names()})
			if err != nil {
				b.Fatal(err)
			}
			service := builder.Service(svc.options...)
			for b.Loop() {
				r.Review(nil, service, nil)
			}
		})
	}
}

// A list with many invalid elements has a bounded number of findings.
func TestFindingsOfAListAreBounded(t *testing.T) {
	key := "service.beta.kubernetes.io/load-balancer-source-ranges"
	for _, ranges := range []string{strings.Repeat(",", 10000) + "x", strings.Repeat("2001:db8::/32,", 10000) + "2001:db8::/32"} {
		svc := builder.Service(builder.Annotation(key, ranges))
		svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		if n := len(own.Parse(svc).Validate()); n != 100 {
			t.Errorf("%d findings of %.20s…, want 100", n, ranges)
		}
	}
}
