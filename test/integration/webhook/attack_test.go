package webhook_test

import (
	"context"
	"crypto/tls"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/adversarial"
	"quaymaster.dev/test/builder"
)

// A client without any rights cannot keep the API server from getting decisions: with failure policy Fail, a valid
// Service is created and an invalid one rejected for its mistake, during every attack.
func TestAttacks(t *testing.T) {
	target := adversarial.Target{
		Address: shared.webhook.Address, Path: "/validate-service",
		// The attacker does not care whom it talks to.
		TLS: &tls.Config{InsecureSkipVerify: true},
	}
	for _, attack := range adversarial.Attacks() {
		t.Run(attack.Name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var attacking sync.WaitGroup
			attacking.Go(func() { attack.Run(ctx, target, 50) })
			defer attacking.Wait()
			defer stop()
			for range 5 {
				if err := shared.Client.Create(t.Context(), service("victim"), client.DryRunAll); err != nil {
					t.Errorf("valid Service: %v", err)
				}
				invalid := service("victim", builder.DLB("scheduler", "fastest"))
				if causes := causesOf(nil, invalid); len(causes) == 0 {
					t.Fatal("the Service is valid")
				}
				err := shared.Client.Create(t.Context(), invalid, client.DryRunAll)
				if !apierrors.IsInvalid(err) {
					t.Errorf("invalid Service: %v", err)
				}
			}
		})
	}
}
