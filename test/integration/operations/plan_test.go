package operations_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"quaymaster.dev/test/harness/env"
)

// While the controllers run and have nothing to do, a plan has no changes, and it recognizes the cluster as the holder of
// its UID.
func TestPlan(t *testing.T) {
	ctx := t.Context()
	svc := service("planned")
	if err := shared.Client.Create(ctx, svc); err != nil {
		t.Fatal(err)
	}
	shared.AwaitAddress(t, soon, svc)
	env.Eventually(t, soon, "nothing to do", func(ctx context.Context) error {
		out, err := program(ctx, "quayctl", "plan", "--kubeconfig="+shared.AdminKubeconfig, shared.cloudConfig)
		if err != nil {
			return err
		}
		if out.Code != 0 || !strings.HasSuffix(out.Stdout, "changes: 0; waiting: 0\n") {
			return fmt.Errorf("exit code %d: %s%s", out.Code, out.Stdout, out.Stderr)
		}
		return nil
	})
	if err := shared.Client.Delete(ctx, svc); err != nil {
		t.Fatal(err)
	}
}
