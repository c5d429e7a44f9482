package service_test

import (
	"testing"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/webhook/service"
)

// quayctl doctor must also get its refusal from an installation for other clouds.
func TestProbesAreRefusedByAnyCatalog(t *testing.T) {
	const probe = `{"` + service.AnnotationProbe + `":"x"}`
	for _, catalogs := range [][]string{{loadbalancer.Catalog}, {"hcloud", "metallb"}, nil} {
		reviewer, err := review.New(catalog.Options{DefaultClass: true, Catalogs: catalogs})
		if err != nil {
			t.Fatal(err)
		}
		v := service.NewValidator(service.Options{Reviewer: reviewer, Policies: policies{}})
		for name, test := range map[string]struct {
			manifest manifest
			allowed  bool
		}{
			"probe":      {manifest{name: "web", annotations: probe}, false},
			"none":       {manifest{name: "web"}, true},
			"other type": {manifest{name: "web", annotations: probe, spec: `{"type":"ClusterIP"}`}, true},
		} {
			response, err := admit(t, v, create(test.manifest))
			if err != nil || response.Allowed != test.allowed {
				t.Errorf("%s by %v: %v, %+v", name, catalogs, err, response)
			}
		}
	}
}
