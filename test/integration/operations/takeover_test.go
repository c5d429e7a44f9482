package operations_test

import (
	"context"
	"errors"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// An attacker who takes over a pod of the webhooks has the token of their account. With it, the attacker must not become
// another ServiceAccount of the namespace: neither by having their Secret deleted by the garbage collector and creating
// it again as one with a token, nor if an administrator deletes the Secret.
func TestWebhookAccountStaysItself(t *testing.T) {
	t.Parallel()
	e := env.Start(t, env.Options{ControllerManager: true})
	ctx := t.Context()
	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.InstallChart(ctx, values(port)); err != nil {
		t.Fatal(err)
	}
	powerful := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "powerful"}}
	if err := e.Client.Create(ctx, powerful); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := e.ServiceAccountKubeconfig(ctx, env.Namespace, "quaymaster-webhook")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	secrets := api.CoreV1().Secrets(env.Namespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "quaymaster-webhook-self-signed"}}

	// A patch, or an update with all of the object.
	setOwner := func(ctx context.Context, dryRun ...string) error {
		const owner = `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"none"}]}}`
		_, err := secrets.Patch(ctx, secret.Name, types.MergePatchType, []byte(owner), metav1.PatchOptions{DryRun: dryRun})
		if err == nil {
			return nil
		}
		found, err := secrets.Get(ctx, secret.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "none", UID: "none"}}
		_, err = secrets.Update(ctx, found, metav1.UpdateOptions{DryRun: dryRun})
		return err
	}
	// API servers take a moment to enforce a new policy.
	enforced, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_ = env.Poll(enforced, "the policy", func(ctx context.Context) error {
		if setOwner(ctx, metav1.DryRunAll) == nil {
			return errors.New("an owner may be set")
		}
		return nil
	})

	if err := setOwner(ctx); err == nil {
		t.Error("the account set an owner of its Secret, which the garbage collector then deletes")
		env.Eventually(t, soon, "the garbage collector", func(ctx context.Context) error {
			if err := e.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret); err == nil {
				return errors.New("it has not deleted the Secret")
			}
			return nil
		})
	} else {
		t.Log(err)
		if err := e.Client.Delete(ctx, secret); err != nil {
			t.Fatal(err)
		}
	}

	token := []byte(`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token","metadata":{"name":"` +
		secret.Name + `","annotations":{"kubernetes.io/service-account.name":"powerful"}}}`)
	_, err = secrets.Patch(ctx, secret.Name, types.ApplyYAMLPatchType, token, metav1.PatchOptions{FieldManager: "attacker"})
	if err != nil {
		return
	}
	t.Error("the account created a Secret for the token of another account")
	env.Eventually(t, soon, "the token", func(ctx context.Context) error {
		found, err := secrets.Get(ctx, secret.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(found.Data[corev1.ServiceAccountTokenKey]) == 0 {
			return errors.New("there is none")
		}
		config = rest.AnonymousClientConfig(config)
		config.BearerToken = string(found.Data[corev1.ServiceAccountTokenKey])
		return nil
	})
	if api, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	who, err := api.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Errorf("the account became %s", who.Status.UserInfo.Username)
}
