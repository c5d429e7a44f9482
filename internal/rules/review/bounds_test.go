package review_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/finding"
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

// The documentation of what is too large names the limits.
func TestLimitsAreDocumented(t *testing.T) {
	const many = 10_000
	svc := builder.Service()
	for i := range many {
		builder.Annotation(fmt.Sprintf("load-balancer.hetzner.cloud/key-%d", i), "x")(svc)
	}
	svc.Spec.Ports = make([]corev1.ServicePort, many)
	svc.Spec.LoadBalancerSourceRanges, svc.Spec.ExternalIPs = make([]string, many), make([]string, many)
	help := map[string]string{}
	for _, chapter := range finding.Docs().Chapters {
		for _, d := range chapter.Findings {
			help[d.ID] = d.Help
		}
	}
	findings := reviewer(t, "hcloud").Review(nil, svc, nil)
	if len(findings) != 4 {
		t.Errorf("%d findings, want 4", len(findings))
	}
	most := regexp.MustCompile("at most ([0-9]+ [a-z]+)")
	for _, f := range findings {
		limit := most.FindStringSubmatch(f.Message)
		if len(limit) < 2 || !strings.Contains(help[f.ID], "more than "+limit[1]) {
			t.Errorf("%s: %q is not the limit in %q", f.ID, f.Message, help[f.ID])
		}
	}
}
