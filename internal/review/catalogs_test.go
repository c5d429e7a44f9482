package review_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/review"
	"quaymaster.dev/test/builder"
)

// strayed has a mistake for the DLB and one for MetalLB.
func strayed() *corev1.Service {
	return builder.Service(builder.DLB("scheduler", "fastest"), builder.Annotation("metallb.io/address-pol", "edge"))
}

func choosing(t *testing.T, catalogs ...string) *policy.Policy {
	t.Helper()
	p := &v1alpha1.ClusterLoadBalancerPolicy{}
	p.Name = "choice"
	p.Spec.Catalogs = catalogs
	compiled, findings := policy.CompileCluster(p)
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
		chosen   []string
		want     []string
	}{
		"the DLB alone":                        {[]string{"mycloud"}, nil, []string{dlb}},
		"another cloud alone":                  {[]string{"metallb"}, nil, []string{metallb}},
		"both":                                 {[]string{"mycloud", "metallb"}, nil, []string{dlb, metallb}},
		"none":                                 {nil, nil, nil},
		"a policy adds one":                    {[]string{"mycloud"}, []string{"mycloud", "metallb"}, []string{dlb, metallb}},
		"a policy chooses another":             {[]string{"mycloud"}, []string{"metallb"}, []string{metallb}},
		"a policy chooses one of those chosen": {[]string{"mycloud", "metallb"}, []string{"mycloud"}, []string{dlb}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reviewer, err := review.New(catalog.Options{Catalogs: test.selected, Class: "mycloud.io/dlb"})
			if err != nil {
				t.Fatal(err)
			}
			var applicable []*policy.Policy
			if test.chosen != nil {
				applicable = append(applicable, choosing(t, test.chosen...))
			}
			var got []string
			for _, f := range reviewer.Review(nil, strayed(), applicable) {
				got = append(got, f.ID)
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// Without the catalog of the DLB a Service is another cloud's: it gets nothing from us.
func TestDefaultsAreOfTheCatalogsChosen(t *testing.T) {
	reviewer, err := review.New(catalog.Options{Catalogs: []string{"mycloud"}})
	if err != nil {
		t.Fatal(err)
	}
	if added := reviewer.Defaults(builder.Service(), nil); len(added) == 0 {
		t.Error("no defaults of the DLB")
	}
	if added := reviewer.Defaults(builder.Service(), []*policy.Policy{choosing(t, "metallb")}); len(added) > 0 {
		t.Errorf("added %v", added)
	}
}

func TestSeverityOfUnknownKeys(t *testing.T) {
	reviewer, err := review.New(catalog.Options{
		Catalogs: []string{"metallb"}, UnknownKeys: map[string]finding.Severity{"": finding.Error, "metallb": finding.Warning},
	})
	if err != nil {
		t.Fatal(err)
	}
	findings := reviewer.Review(nil, strayed(), nil)
	if len(findings) != 1 || findings[0].Severity != finding.Warning {
		t.Errorf("got %+v", findings)
	}
}

func TestUnknownCatalog(t *testing.T) {
	_, err := review.New(catalog.Options{Catalogs: []string{"metalb"}})
	if err == nil || !strings.HasSuffix(err.Error(), `; did you mean "metallb"?`) {
		t.Errorf("got %v", err)
	}
}

func TestDefaultsOfOtherCloudsAreRead(t *testing.T) {
	p := &v1alpha1.LoadBalancerPolicy{}
	p.Spec.Defaults = map[string]string{"metallb.io/address-pool": "Edge Pool", "metallb.io/allow-shared-ip": "a", "example.com/other": "Edge Pool"}
	_, findings := policy.Compile(p)
	if len(findings) != 1 || findings[0].ID != "policy-value" || findings[0].Field != "spec.defaults[metallb.io/address-pool]" {
		t.Errorf("got %+v", findings)
	}
}
