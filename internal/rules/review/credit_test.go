package review_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/builder"
)

// The mutating webhook was not called for these Services. A default satisfies a rule only if something still applies
// it.
func TestDefaultsThatWereNotWritten(t *testing.T) {
	const (
		foreign = "rules: [{annotation: example.com/scheme, required: true}]\ndefaults: {example.com/scheme: internal}"
		ofDLB   = "rules: [{annotation: DLB-flavor, required: true}]\ndefaults: {DLB-flavor: large}"
		allowed = "rules: [{annotation: DLB-network-type, allowed: [private]}]\ndefaults: {DLB-network-type: private}"
	)
	const noScheme = `error [example.com/scheme]: Required value: must be set: required by LoadBalancerPolicy "limits"; ` +
		`its default "internal" could not be added; try again, or set the annotation`
	noFlavor := `error [DLB-flavor]: Required value: must be set: required by LoadBalancerPolicy "limits"; ` +
		`its default "large" could not be added; try again, or set the annotation`
	public := `error [DLB-network-type]: Required value: must be set: the default public must be private, as set by ` +
		`LoadBalancerPolicy "limits"; its default "private" could not be added; try again, or set the annotation`
	clusterIP := func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeClusterIP }
	alone := own.WithoutControllers()
	tests := map[string]struct {
		by     review.Reviewer
		policy string
		old    *corev1.Service
		svc    []builder.ServiceOption
		want   []string
	}{
		"another cloud's key":                {by: own, policy: foreign, want: []string{noScheme}},
		"another cloud's key, set":           {by: own, policy: foreign, svc: []builder.ServiceOption{builder.Annotation("example.com/scheme", "x")}},
		"another cloud's key, new type":      {by: own, policy: foreign, old: builder.Service(builder.Spec(clusterIP)), want: []string{noScheme}},
		"key of the DLB":                     {by: own, policy: ofDLB},
		"rule about a built-in default":      {by: own, policy: allowed},
		"another class":                      {by: own, policy: foreign, svc: []builder.ServiceOption{builder.Class("example.com/lb")}, want: []string{noScheme}},
		"without controllers":                {by: alone, policy: ofDLB, want: []string{noFlavor}},
		"without controllers, set":           {by: alone, policy: ofDLB, svc: []builder.ServiceOption{builder.DLB("flavor", "small")}},
		"without controllers, built-in":      {by: alone, policy: allowed, want: []string{public}},
		"without controllers, other cloud's": {by: alone, policy: foreign, want: []string{noScheme}},
		"no default": {
			by: own, policy: "rules: [{annotation: DLB-tags, required: true}]",
			want: []string{`error [DLB-tags]: Required value: must be set: required by LoadBalancerPolicy "limits"; set the annotation`},
		},
		"update of a Service that lacks it": {
			by: own, policy: foreign, old: builder.Service(),
			want: []string{"warning "},
		},
		"update without controllers that removes it": {
			by: alone, policy: ofDLB, old: builder.Service(builder.DLB("flavor", "large")),
			want: []string{`error [DLB-flavor]: Required value: must be set: required by LoadBalancerPolicy "limits"; set the annotation`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			limits := []*policy.Policy{builder.ValidPolicy(t, ofNamespace, "limits", test.policy)}
			var got []string
			for _, f := range test.by.Review(test.old, builder.Service(test.svc...), limits) {
				got = append(got, string(f.Severity)+" "+builder.Short(finding.Summary([]finding.Finding{f})))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// The linter assumes that admission works; an audit sees what was stored.
func TestCreditOfLintAndAudit(t *testing.T) {
	limits := []*policy.Policy{builder.ValidPolicy(t, ofNamespace, "limits",
		"rules: [{annotation: example.com/scheme, required: true}, {annotation: DLB-flavor, required: true}]\n"+
			"defaults: {example.com/scheme: internal, DLB-flavor: large}")}
	if got := own.Preview(builder.Service(), limits); len(got) != 0 {
		t.Errorf("the linter finds %v", got)
	}
	got := own.Stored(builder.Service(), limits)
	if len(got) != 1 || got[0].Field != "metadata.annotations[example.com/scheme]" {
		t.Errorf("the audit finds %v, want only what the controllers do not apply", got)
	}
}
