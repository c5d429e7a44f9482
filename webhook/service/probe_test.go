package service_test

import (
	"strings"
	"testing"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/review"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/service"
)

// quayctl doctor must also get its refusal from an installation for other clouds.
func TestProbesAreRefusedByAnyCatalog(t *testing.T) {
	const probe = `{"` + service.AnnotationProbe + `":"x"}`
	for _, catalogs := range [][]string{{loadbalancer.Catalog}, {"hcloud", "metallb"}, nil} {
		reviewer, err := review.New(catalog.Options{Catalogs: catalogs})
		if err != nil {
			t.Fatal(err)
		}
		v := service.NewValidator(service.ValidatorOptions{Reviewer: reviewer, Policies: policies{}})
		for name, test := range map[string]struct {
			manifest manifest
			allowed  bool
		}{
			"probe":      {manifest{name: "web", annotations: probe}, false},
			"none":       {manifest{name: "web"}, true},
			"other type": {manifest{name: "web", annotations: probe, spec: `{"type":"ClusterIP"}`}, true},
		} {
			response, err := v.Admit(t.Context(), create(test.manifest))
			if err != nil || response.Allowed != test.allowed {
				t.Errorf("%s by %v: %v, %+v", name, catalogs, err, response)
			}
		}
	}
}

// The API server refuses such a Service itself, after admission: it costs no time here.
func TestOversizedServicesAreLeftToTheAPIServer(t *testing.T) {
	m := manifest{name: "web", annotations: `{"` + prefix + `scheduler":"` + strings.Repeat("x", 256<<10) + `"}`}
	for name, admitter := range map[string]webhook.Admitter{
		"validate": service.NewValidator(service.ValidatorOptions{Reviewer: reviewer, Policies: policies{}}),
		"mutate":   service.NewMutator(service.MutatorOptions{Reviewer: reviewer, Policies: policies{}}),
	} {
		response, err := admitter.Admit(t.Context(), create(m))
		if err != nil || !response.Allowed || response.Patch != nil {
			t.Errorf("%s: %v, %+v", name, err, response)
		}
	}
}
