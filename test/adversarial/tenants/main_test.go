package tenants_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/harness/env"
)

var (
	full    = flag.Bool("full", false, "attack for longer, with all variants")
	figured = flag.String("figures", "", "a file for the table of figures")
)

const (
	// attackerName is the tenant who attacks. Each attack has a namespace of its own.
	attackerName = "mallory"
	// tenantRole has the rights of a tenant in a namespace.
	tenantRole = "tenant"
	// soon bounds how long a change takes to have its effect, with a margin for slow machines.
	soon = 30 * time.Second
)

// fixture is shared by all attacks: the control plane and what does not depend on the attack.
type fixture struct {
	*env.Env
	cloudConfig string
	port        int
	certFile    string
	keyFile     string

	admin, attacker *user
	innocents       []*user
	// idle is the resident memory of a webhook before any attack.
	idle int64
	// yardstick is the newest result of the function.
	yardstick time.Duration
}

var shared fixture

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(env.Main(m, env.Options{}, setup))
}

func setup(ctx context.Context, e *env.Env) error {
	shared.Env = e
	var err error
	if shared.port, err = env.FreePort(); err != nil {
		return err
	}
	// A certificate from files stays the same when the webhook is restarted.
	if shared.certFile, shared.keyFile, err = e.ServingCertificate("webhook"); err != nil {
		return err
	}
	authority, err := os.ReadFile(e.Authority())
	if err != nil {
		return err
	}
	// The failure policies are the chart's: Ignore.
	if err := e.InstallChart(ctx, env.Values{
		"certs":   map[string]any{"mode": "files"},
		"webhook": map[string]any{"url": env.WebhookURL(shared.port), "caBundle": string(authority)},
	}); err != nil {
		return err
	}
	cloud, err := e.StartMycloud(ctx, "")
	if err != nil {
		return err
	}
	if shared.cloudConfig, err = e.CloudConfigArg("webhook", env.CloudConfigFor("dev", cloud)); err != nil {
		return err
	}
	return errors.Join(e.CreateExample(ctx, "storageclasses.yaml"), prepareTenants(ctx, e))
}

func prepareTenants(ctx context.Context, e *env.Env) error {
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: tenantRole}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services", "services/status", "persistentvolumeclaims"}, Verbs: verbs},
		{APIGroups: []string{v1alpha1.Group}, Resources: []string{"loadbalancerpolicies"}, Verbs: verbs},
	}}
	if err := e.Client.Create(ctx, role); err != nil {
		return err
	}
	var err error
	if shared.admin, err = newUser("admin", e.AdminKubeconfig); err != nil {
		return err
	}
	if shared.attacker, err = issueUser(attackerName); err != nil {
		return err
	}
	for _, name := range []string{"alice", "bob", "carol"} {
		innocent, err := issueUser(name)
		if err != nil {
			return err
		}
		shared.innocents = append(shared.innocents, innocent)
		if err := admit(ctx, e, name, name); err != nil {
			return err
		}
	}
	return nil
}

// admit creates a namespace and gives a user the rights of a tenant in it.
func admit(ctx context.Context, e *env.Env, user, namespace string) error {
	return errors.Join(
		e.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}),
		e.Client.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: tenantRole},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: tenantRole},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}),
	)
}

// startWebhook starts the webhook and returns when the API server calls it.
func startWebhook(t *testing.T, args ...string) *env.Webhook {
	t.Helper()
	begin := time.Now()
	w, err := shared.StartWebhook(t.Context(), shared.port, append([]string{
		"--cert-mode=files", "--tls-cert-file=" + shared.certFile, "--tls-private-key-file=" + shared.keyFile, shared.cloudConfig,
	}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %s", time.Since(begin).Round(10*time.Millisecond))
	t.Cleanup(func() {
		if w.Exit() != nil {
			return
		}
		if err := w.Stop(20 * time.Second); err != nil {
			t.Error(err)
		}
	})
	// Old connections of the API server have to fail first.
	for good := 0; good < 5; {
		if time.Since(begin) > soon+time.Minute {
			t.Fatal("the API server does not call the webhook")
		}
		if err := innocentPair(t.Context(), shared.innocents[0]); err != nil {
			good = 0
			time.Sleep(50 * time.Millisecond)
			continue
		}
		good++
	}
	return w
}
