package webhook_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// putSecret creates the Secret or replaces its data.
func putSecret(t *testing.T, name string, data map[string][]byte) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}, Data: data}
	err := shared.Client.Update(t.Context(), secret)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err == nil {
		return
	}
	if err := shared.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(shared.Client.Delete(ctx, secret)); err != nil {
			t.Error(err)
		}
	})
}

// secretData returns the data of the Secret.
func secretData(ctx context.Context, name string) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	err := shared.Client.Get(ctx, client.ObjectKey{Namespace: env.Namespace, Name: name}, secret)
	return secret.Data, err
}
