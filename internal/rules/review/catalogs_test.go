package review_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/builder"
)

// twoMistakes returns a Service with a mistake for the DLB and one for MetalLB.
func twoMistakes() *corev1.Service {
	return builder.Service(builder.DLB("scheduler", "fastest"), builder.Annotation("metallb.io/address-pol", "edge"))
}

// selecting returns a policy that selects catalogs.
func selecting(t *testing.T, catalogs ...string) *policy.Policy {
	t.Helper()
	p := &v1alpha1.ClusterLoadBalancerPolicy{}
	p.Name = "choice"
	p.Spec.Catalogs = catalogs
	compiled, findings := policy.Compile(p)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return compiled
}

func TestCatalogs(t *testing.T) {
	const (
		dlb     = "dlb-invalid-value"
		metallb = "metallb-unknown-key"
	)
	tests := map[string]struct {
		selected []string
		byPolicy []string
		want     []string
	}{
		"only the DLB":                    {[]string{"mycloud"}, nil, []string{dlb}},
		"only another cloud":              {[]string{"metallb"}, nil, []string{metallb}},
		"both":                            {[]string{"mycloud", "metallb"}, nil, []string{dlb, metallb}},
		"none":                            {nil, nil, nil},
		"a policy adds one":               {[]string{"mycloud"}, []string{"mycloud", "metallb"}, []string{dlb, metallb}},
		"a policy selects another":        {[]string{"mycloud"}, []string{"metallb"}, []string{metallb}},
		"a policy selects one of several": {[]string{"mycloud", "metallb"}, []string{"mycloud"}, []string{dlb}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reviewer, err := review.New(catalog.Options{Catalogs: test.selected, Class: "mycloud.io/dlb", DefaultClass: true})
			if err != nil {
				t.Fatal(err)
			}
			var applicable []*policy.Policy
			if test.byPolicy != nil {
				applicable = append(applicable, selecting(t, test.byPolicy...))
			}
			var got []string
			for _, f := range reviewer.Review(nil, twoMistakes(), applicable) {
				got = append(got, f.ID)
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// Without the catalog of the DLB, a Service belongs to another cloud and gets no built-in defaults.
func TestDefaultsOfSelectedCatalogs(t *testing.T) {
	reviewer, err := review.New(catalog.Options{DefaultClass: true, Catalogs: []string{"mycloud"}})
	if err != nil {
		t.Fatal(err)
	}
	if added := reviewer.Defaults(builder.Service(), nil); len(added) == 0 {
		t.Error("the defaults of the DLB are missing")
	}
	if added := reviewer.Defaults(builder.Service(), []*policy.Policy{selecting(t, "metallb")}); len(added) > 0 {
		t.Errorf("added %v, want no defaults", added)
	}
}

func TestSeverityOfUnknownKeys(t *testing.T) {
	reviewer, err := review.New(catalog.Options{DefaultClass: true,
		Catalogs: []string{"metallb"}, UnknownKeys: map[string]catalog.UnknownKeys{"": catalog.UnknownError, "metallb": catalog.UnknownWarn},
	})
	if err != nil {
		t.Fatal(err)
	}
	findings := reviewer.Review(nil, twoMistakes(), nil)
	if len(findings) != 1 || findings[0].Severity != finding.Warning {
		t.Errorf("got %+v", findings)
	}
}

func TestUnknownCatalog(t *testing.T) {
	_, err := review.New(catalog.Options{DefaultClass: true, Catalogs: []string{"metalb"}})
	if err == nil || !strings.HasSuffix(err.Error(), `; did you mean "metallb"?`) {
		t.Errorf("got %v", err)
	}
}

func TestDefaultsOfOtherCloudsAreValidated(t *testing.T) {
	p := &v1alpha1.LoadBalancerPolicy{}
	p.Spec.Defaults = map[string]string{"metallb.io/address-pool": "Edge Pool", "metallb.io/allow-shared-ip": "a", "example.com/other": "Edge Pool"}
	_, findings := policy.Compile(p)
	if len(findings) != 1 || findings[0].ID != "policy-value" || findings[0].Field != "spec.defaults[metallb.io/address-pool]" {
		t.Errorf("got %+v", findings)
	}
}

func reviewer(t *testing.T, names ...string) review.Reviewer {
	t.Helper()
	r, err := review.New(catalog.Options{DefaultClass: true, Catalogs: names})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The closest key may be in another catalog with the same prefix.
func TestSuggestionsComeFromEveryCatalog(t *testing.T) {
	const prefix = "service.beta.kubernetes.io/aws-load-balancer-"
	for _, names := range [][]string{{"aws", "aws-lbc"}, {"aws-lbc", "aws"}} {
		findings := reviewer(t, names...).Review(nil, builder.Service(builder.Annotation(prefix+"schem", "internal")), nil)
		if len(findings) != 1 || findings[0].Remedy != `did you mean "`+prefix+`scheme"?` {
			t.Errorf("%v: got %+v", names, findings)
		}
	}
}

// Equal problems of two catalogs are one finding that names both.
func TestCatalogsThatAgreeHaveOneFinding(t *testing.T) {
	svc := builder.Service(builder.Annotation("service.beta.kubernetes.io/load-balancer-source-ranges", "10.0.0.0"))
	findings := reviewer(t, "gcp", "oci").Review(nil, svc, nil)
	const want = `must be a comma-separated list, each element a CIDR such as 10.0.0.0/8: invalid element "10.0.0.0" (gcp, oci)`
	if len(findings) != 1 || findings[0].ID != "gcp-invalid-value" || findings[0].Problem() != want {
		t.Errorf("got %+v", findings)
	}
}

// Another catalog may know the common part of the DLB's prefix, whichever catalog is named first.
func TestUnknownOwnKeysAreErrors(t *testing.T) {
	for _, names := range [][]string{{"alibaba", "mycloud"}, {"mycloud", "alibaba"}} {
		r, err := review.New(catalog.Options{DefaultClass: true, Catalogs: names, UnknownKeys: map[string]catalog.UnknownKeys{"": catalog.UnknownWarn}})
		if err != nil {
			t.Fatal(err)
		}
		findings := r.Review(nil, builder.Service(builder.DLB("backend-type", "x")), nil)
		if len(findings) != 1 || findings[0].ID != "dlb-unknown-key" || findings[0].Severity != finding.Error {
			t.Errorf("%v: got %+v", names, findings)
		}
	}
}
