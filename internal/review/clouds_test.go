package review_test

import (
	"testing"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/review"
	"quaymaster.dev/test/builder"
)

func reviewer(t *testing.T, names ...string) review.Reviewer {
	t.Helper()
	r, err := review.New(catalog.Options{Catalogs: names})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The key that was meant may be known only to another catalog with the same prefix.
func TestSuggestionsComeFromEveryCatalog(t *testing.T) {
	const prefix = "service.beta.kubernetes.io/aws-load-balancer-"
	for _, names := range [][]string{{"aws", "aws-lbc"}, {"aws-lbc", "aws"}} {
		findings := reviewer(t, names...).Review(nil, builder.Service(builder.Annotation(prefix+"schem", "internal")), nil)
		if len(findings) != 1 || findings[0].Remedy != `did you mean "`+prefix+`scheme"?` {
			t.Errorf("%v: got %+v", names, findings)
		}
	}
}

// What two catalogs say alike of one value is one finding that names both.
func TestCatalogsThatAgreeHaveOneFinding(t *testing.T) {
	svc := builder.Service(builder.Annotation("service.beta.kubernetes.io/load-balancer-source-ranges", "10.0.0.0"))
	findings := reviewer(t, "gcp", "oci").Review(nil, svc, nil)
	const want = `must be a comma-separated list, each element a CIDR such as 10.0.0.0/8: invalid element "10.0.0.0" (gcp, oci)`
	if len(findings) != 1 || findings[0].ID != "gcp-invalid-value" || findings[0].Problem() != want {
		t.Errorf("got %+v", findings)
	}
}
