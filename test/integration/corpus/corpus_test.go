// Package corpus_test applies the corpus to a real API server with the chart's webhooks: users must get the same
// findings that the engine returns.
package corpus_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/test/corpus"
	"quaymaster.dev/test/harness/env"
)

const (
	namespace = "corpus"
	// cloud is the prefix of namespaces whose Services are validated against the catalog of another cloud.
	cloud = "cloud-"
)

var (
	cluster *env.Env
	cases   []corpus.Case
)

func TestMain(m *testing.M) { os.Exit(env.Main(m, env.Options{APIServerArgs: env.DualStack}, setup)) }

// setup stores the old objects of updates before the webhooks exist, as if they had bypassed admission, and the
// policies for other cases before the webhook starts, so that it has them from the beginning.
func setup(ctx context.Context, e *env.Env) error {
	cluster = e
	var err error
	if cases, err = corpus.Load(); err != nil {
		return err
	}
	clouds, err := corpus.Clouds()
	if err != nil {
		return err
	}
	cases = append(cases, clouds...)
	if err := e.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	for _, c := range cases {
		if err := storeOld(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	port, err := env.FreePort()
	if err != nil {
		return err
	}
	// No webhook validates policies yet.
	if err := e.InstallChart(ctx, values(port, "Ignore")); err != nil {
		return err
	}
	for _, c := range cases {
		if err := storePolicies(ctx, c.Policies, c.OldPolicies); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	for _, name := range library.BuiltIn().Services() {
		if err := choose(ctx, name); err != nil {
			return err
		}
	}
	// The linter does the same.
	if _, err = e.StartWebhook(ctx, port, "--unknown-keys=error"); err != nil {
		return err
	}
	if err := e.InstallChart(ctx, values(port, "Fail")); err != nil {
		return err
	}
	// The API server takes a moment to notice that.
	return env.Poll(ctx, "the API server to call the webhooks", func(ctx context.Context) error {
		bad := &v1alpha1.LoadBalancerPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}}
		bad.Spec.Defaults = map[string]string{loadbalancer.Prefix + "nothing": "x"}
		if err := e.Client.Create(ctx, bad, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("an invalid policy: %w", err)
		}
		return nil
	})
}

func values(port int, policies string) env.Values {
	return env.Values{"webhook": map[string]any{"url": env.WebhookURL(port), "failurePolicy": map[string]any{
		"mutateService": "Fail", "validateService": "Fail", "validatePolicy": policies,
	}}}
}

// storeOld stores the old Service of a case in its namespace.
func storeOld(ctx context.Context, c corpus.Case) error {
	if c.Namespace != "" {
		if err := cluster.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace}}); err != nil {
			return err
		}
	}
	if c.Old == nil {
		return nil
	}
	old := named(c, c.Old)
	if err := cluster.Client.Create(ctx, old); err != nil {
		return err
	}
	old.Status = c.Old.Status
	return cluster.Client.Status().Update(ctx, old)
}

// choose creates a namespace whose Services are validated against one catalog.
func choose(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cloud + name}}
	if err := cluster.Client.Create(ctx, ns); err != nil {
		return err
	}
	p := &v1alpha1.ClusterLoadBalancerPolicy{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
	p.Spec.NamespaceSelector.MatchLabels = map[string]string{corev1.LabelMetadataName: ns.Name}
	p.Spec.Catalogs = []string{name}
	return cluster.Client.Create(ctx, p)
}

func storePolicies(ctx context.Context, all ...corpus.Policies) error {
	for _, policies := range all {
		for _, p := range objects(policies) {
			if err := cluster.Client.Create(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func objects(policies corpus.Policies) []client.Object {
	var all []client.Object
	for _, p := range policies.Namespaced {
		all = append(all, p.DeepCopy())
	}
	for _, p := range policies.Cluster {
		all = append(all, p.DeepCopy())
	}
	return all
}

func named(c corpus.Case, svc *corev1.Service) *corev1.Service {
	svc = svc.DeepCopy()
	if c.Catalog != "" {
		svc.Namespace = cloud + c.Catalog
		return svc
	}
	svc.Namespace, svc.Name = cmp.Or(c.Namespace, namespace), strings.ReplaceAll(path.Dir(c.Name)+"-"+path.Base(c.Name), ".", "-")
	return svc
}

func TestCorpus(t *testing.T) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			warnings := &recorder{}
			user, err := clientFor(cluster.User, warnings)
			if err != nil {
				t.Fatal(err)
			}
			if c.New != nil {
				err = sendService(t.Context(), user, c)
			} else {
				err = sendPolicy(t.Context(), c, warnings)
			}
			if c.Catalog != "" && len(c.Causes) > 0 && apierrors.IsInvalid(err) && !strings.Contains(err.Error(), "admission webhook") {
				return // the API server itself rejects it, before it calls webhooks
			}
			if diff := gocmp.Diff(fields(c.Causes), causes(t, err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if err != nil {
				return // The API server returns the warnings of a rejected request, too, but the client drops them.
			}
			for _, want := range c.Warnings {
				if !warnings.mention(want.Field) {
					t.Errorf("no warning of %s in %q", want.Field, warnings.texts)
				}
			}
		})
	}
}

func clientFor(config *rest.Config, warnings *recorder) (client.Client, error) {
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = warnings
	return client.New(config, client.Options{Scheme: cluster.Client.Scheme()})
}

// sendService creates the Service, or updates the parts of the old one that the case changes.
func sendService(ctx context.Context, user client.Client, c corpus.Case) error {
	svc := named(c, c.New)
	if c.Old == nil {
		return user.Create(ctx, svc)
	}
	stored := &corev1.Service{}
	if err := user.Get(ctx, client.ObjectKeyFromObject(svc), stored); err != nil {
		return err
	}
	stored.Annotations, stored.Spec.Type, stored.Spec.Ports = svc.Annotations, svc.Spec.Type, svc.Spec.Ports
	return user.Update(ctx, stored)
}

// sendPolicy creates the policy or updates the old one. Cluster policies are created by the administrator.
func sendPolicy(ctx context.Context, c corpus.Case, warnings *recorder) error {
	admin, err := clientFor(cluster.Admin, warnings)
	if err != nil {
		return err
	}
	wanted := objects(c.NewPolicies)[0]
	if len(objects(c.OldPolicies)) == 0 {
		return admin.Create(ctx, wanted)
	}
	stored := objects(c.OldPolicies)[0]
	if err := admin.Get(ctx, client.ObjectKeyFromObject(wanted), stored); err != nil {
		return err
	}
	wanted.SetResourceVersion(stored.GetResourceVersion())
	return admin.Update(ctx, wanted)
}

// causes returns the fields that a rejection names; only the 422 of a webhook has them in this form.
func causes(t *testing.T, err error) []string {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Details == nil {
		t.Fatalf("not refused as invalid: %v", err)
	}
	var list []string
	for _, cause := range status.Status().Details.Causes {
		list = append(list, cause.Field)
		if !strings.Contains(status.Status().Message, cause.Message) {
			t.Errorf("the message lacks the cause %q", cause.Message)
		}
	}
	slices.SortFunc(list, cmp.Compare[string])
	return list
}

func fields(problems []corpus.Problem) []string {
	var list []string
	for _, p := range problems {
		list = append(list, p.Field)
	}
	slices.SortFunc(list, cmp.Compare[string])
	return list
}

// recorder records the warnings that one client receives.
type recorder struct {
	mu    sync.Mutex
	texts []string
}

func (r *recorder) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, text)
}

func (r *recorder) mention(field string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.texts, func(text string) bool { return strings.Contains(text, field) })
}
