package app

import (
	"testing"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/builder"
)

// Only what the service controller finds itself gets no second Event.
func TestReportedByService(t *testing.T) {
	reviewer, err := review.New(catalog.Options{Catalogs: []string{"mycloud", "hcloud"}, Class: "mycloud.io/dlb", DefaultClass: true})
	if err != nil {
		t.Fatal(err)
	}
	ours := builder.Service(builder.Class("mycloud.io/dlb"))
	own, rule, foreign := finding.Finding{Catalog: "mycloud"}, finding.Finding{}, finding.Finding{Catalog: "hcloud"}
	if !reportedByService(reviewer, ours, []finding.Finding{own, rule}) {
		t.Error("the service controller reports these")
	}
	if reportedByService(reviewer, ours, []finding.Finding{own, foreign}) {
		t.Error("the service controller reports no errors of other catalogs")
	}
	if reportedByService(reviewer, builder.Service(builder.Class("example.com/lb")), []finding.Finding{rule}) {
		t.Error("the service controller reports nothing about Services of others")
	}
}
