package policies_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// withoutDefaults keeps the API server from calling the mutating webhook for Services of the namespace, as if it was
// down and its failure policy was Ignore.
func (s *space) withoutDefaults() {
	s.t.Helper()
	change := func(ctx context.Context, change func(*admissionregistrationv1.MutatingWebhook)) error {
		configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := s.Client.Get(ctx, client.ObjectKey{Name: "quaymaster"}, configuration); err != nil {
			return err
		}
		before := configuration.DeepCopy()
		for i := range configuration.Webhooks {
			if w := &configuration.Webhooks[i]; w.Name == "mutate.service.quaymaster.dev" {
				change(w)
			}
		}
		return s.Client.Patch(ctx, configuration, client.MergeFrom(before))
	}
	elsewhere := admissionregistrationv1.MatchCondition{
		Name: "elsewhere", Expression: fmt.Sprintf("request.namespace != %q", s.name),
	}
	err := change(s.t.Context(), func(w *admissionregistrationv1.MutatingWebhook) {
		w.MatchConditions = append(w.MatchConditions, elsewhere)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx := context.WithoutCancel(s.t.Context())
	s.t.Cleanup(func() {
		err := change(ctx, func(w *admissionregistrationv1.MutatingWebhook) {
			w.MatchConditions = w.MatchConditions[:len(w.MatchConditions)-1]
		})
		if err != nil {
			s.t.Error(err)
		}
	})
	env.Eventually(s.t, soon, "Services without defaults", func(ctx context.Context) error {
		svc := s.service("tried", builder.Annotation("example.com/scheme", "x"))
		if err := s.Client.Create(ctx, svc, client.DryRunAll); err != nil {
			return err
		}
		if svc.Annotations[maxQPS] != "" {
			return errors.New("the webhook is still called")
		}
		return nil
	})
}

// A default that the mutating webhook did not write satisfies a rule only if the controllers apply it.
func TestDefaultsThatWereNotWritten(t *testing.T) {
	s := newSpace(t, shared.Env, "unwritten")
	s.withoutDefaults()
	s.apply(fmt.Sprintf(`
apiVersion: quaymaster.dev/v1alpha1
kind: LoadBalancerPolicy
metadata: {name: limits, namespace: unwritten}
spec:
  defaults: {example.com/scheme: internal, %[1]s: "700"}
  rules: [{annotation: example.com/scheme, required: true}, {annotation: %[1]s, required: true}]
`, maxQPS))
	refused := env.Output{Stderr: `The Service "web" is invalid: metadata.annotations[example.com/scheme]: Required value: ` +
		`must be set: required by LoadBalancerPolicy "limits"; its default "internal" could not be added; ` +
		"try again, or set the annotation\n", Code: 1}
	manifest := s.manifest(s.service("web"))
	env.Eventually(t, soon, "the policy at admission", func(context.Context) error {
		if diff := cmp.Diff(refused, s.user(manifest, "create", "--dry-run=server", "-f", "-")); diff != "" {
			return fmt.Errorf("another cloud's required key (-want +got):\n%s", diff)
		}
		return nil
	})
	// The remedy works, and the controllers complete the key of the DLB.
	web := s.create(s.service("web", builder.Annotation("example.com/scheme", "internal")))
	s.balancer(shared.cloud, web, 700, "round_robin")
}
