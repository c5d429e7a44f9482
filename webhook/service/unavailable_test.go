package service_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/service"
)

// A Service is not refused because policies are not known. The warning only mentions what happens later if something
// does it: our controllers, and for their own Services.
func TestPoliciesAreNotAvailable(t *testing.T) {
	const (
		defaults = "metadata.annotations: defaults were not added, because policies are not available; "
		rules    = "metadata.annotations: was not validated by policies, because they are not available; "
	)
	ofAnotherClass := `{"type":"LoadBalancer","loadBalancerClass":"example.com/lb","ports":[{"port":80,"protocol":"TCP"}]}`
	tests := map[string]struct {
		by                 review.Reviewer
		spec               string
		defaults, validate string
	}{
		"with the controllers": {
			by:       reviewer,
			defaults: defaults + "the controllers apply those of the DLB; set other annotations yourself",
			validate: rules + "the controllers check it before they change the cloud",
		},
		"with the controllers, of another class": {
			by: reviewer, spec: ofAnotherClass,
			defaults: defaults + "set the annotations, or create the Service again",
			validate: rules + "check it later with quayctl audit",
		},
		"without controllers": {
			by:       reviewer.WithoutControllers(),
			defaults: defaults + "set the annotations, or create the Service again",
			validate: rules + "check it later with quayctl audit",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			unknown := policies{err: errors.New("cache is not synced")}
			m := service.NewMutator(service.Options{Reviewer: test.by, Policies: unknown})
			v := service.NewValidator(service.Options{Reviewer: test.by, Policies: unknown})
			for _, step := range []struct {
				by       webhook.Admitter
				warning  string
				id       string
				manifest manifest
			}{
				{m, test.defaults, "defaults-unavailable", manifest{name: "web", spec: test.spec}},
				{v, test.validate, "policies-unavailable", manifest{name: "web", spec: test.spec}},
			} {
				got, err := admit(t, step.by, create(step.manifest))
				if err != nil {
					t.Fatal(err)
				}
				want := &admissionv1.AdmissionResponse{
					Allowed: true, Warnings: []string{step.warning}, AuditAnnotations: map[string]string{"warned": step.id},
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("response (-want +got):\n%s", diff)
				}
			}
		})
	}
}
