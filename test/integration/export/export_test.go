// Package export_test applies exported policies to a real API server without any webhook: for the corpus, their results
// must be those of the engine, except for what the export reports as left out.
package export_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/tool/export"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/corpus"
	"quaymaster.dev/test/harness/env"
)

var (
	cluster  *env.Env
	exported export.Policies
)

func TestMain(m *testing.M) {
	os.Exit(env.Main(m, env.Options{ControllerManager: true, APIServerArgs: env.DualStack}, setup))
}

// setup creates a namespace for every catalog, in which its policies apply.
func setup(ctx context.Context, e *env.Env) error {
	cluster = e
	var err error
	if exported, err = export.Validating(library.BuiltIn().Services(), export.Class{Name: config.DefaultLoadBalancerClass, Default: true}); err != nil {
		return err
	}
	for _, name := range library.BuiltIn().Services() {
		if err := e.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	for _, p := range exported.Policies {
		if err := e.Client.Create(ctx, p.DeepCopy()); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	for _, b := range exported.Bindings {
		b = b.DeepCopy()
		b.Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{corev1.LabelMetadataName: catalogOf(b.Name)},
		}}
		if err := e.Client.Create(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
	}
	return nil
}

func catalogOf(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, "quaymaster-"), "-warnings")
}

// The API server checks the types of the expressions that it compiles and reports errors in the status.
func TestExpressionsHaveTypes(t *testing.T) {
	for _, p := range exported.Policies {
		t.Run(p.Name, func(t *testing.T) {
			stored := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := env.Poll(ctx, "the API server to check "+p.Name, func(ctx context.Context) error {
				if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(p), stored); err != nil {
					return err
				}
				if stored.Status.TypeChecking == nil {
					return fmt.Errorf("status %+v", stored.Status)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for _, warning := range stored.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s", warning.FieldRef, warning.Warning)
			}
		})
	}
}

func TestCorpus(t *testing.T) {
	ofDLB, err := corpus.Load()
	if err != nil {
		t.Fatal(err)
	}
	ofOthers, err := corpus.Clouds()
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, c := range slices.Concat(ofDLB, ofOthers) {
		if c.Catalog == "" {
			c.Catalog = loadbalancer.Catalog
		}
		if c.Namespace != "" || c.Old != nil || c.New == nil {
			continue // policies of namespaces, and updates
		}
		t.Run(c.Name, func(t *testing.T) {
			svc := c.New.DeepCopy()
			svc.Namespace = c.Catalog
			if svc.Name = strings.NewReplacer("/", "-", ".", "-").Replace(c.Name); len(svc.Name) > 63 {
				svc.Name = strings.TrimLeft(svc.Name[len(svc.Name)-60:], "-")
			}
			said := slices.DeleteFunc(slices.Clone(c.Causes), func(p corpus.Problem) bool { return unsaid(c.Catalog, p) })
			if len(said) > 0 && !tried[c.Catalog] {
				active(t, svc)
				tried[c.Catalog] = true
			}
			err := cluster.Client.Create(t.Context(), svc.DeepCopy(), client.DryRunAll)
			switch {
			case err != nil && !apierrors.IsInvalid(err):
				t.Error(err)
			case err == nil && len(said) > 0:
				t.Errorf("not refused, but for %+v it must be", said)
			case err != nil && len(c.Causes) == 0:
				t.Errorf("refused: %v", err)
			}
		})
	}
}

// addDefaults creates the policy that adds defaults, for a namespace.
func addDefaults(t *testing.T, scope *admissionregistrationv1.MatchResources) {
	t.Helper()
	policies := &admissionregistrationv1.MutatingAdmissionPolicyList{}
	if err := cluster.Client.List(t.Context(), policies); meta.IsNoMatchError(err) {
		t.Skip("the API server does not serve MutatingAdmissionPolicies in v1; see docs/operations/versions.md")
	}
	p, b := export.Mutating(export.Class{Name: config.DefaultLoadBalancerClass, Default: true})
	if err := client.IgnoreAlreadyExists(cluster.Client.Create(t.Context(), p)); err != nil {
		t.Fatal(err)
	}
	b.GenerateName, b.Name, b.Spec.MatchResources = b.Name+"-", "", scope
	if err := cluster.Client.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// written returns the defaults that are added.
func written() map[string]string {
	return catalog.Own(config.DefaultLoadBalancerClass, true).Parse(builder.Service()).WrittenDefaults()
}

func TestDefaults(t *testing.T) {
	const namespace = "defaults"
	addDefaults(t, inNamespace(t, namespace))
	want := written()
	given := func(ctx context.Context, svc *corev1.Service) (map[string]string, error) {
		svc.Namespace = namespace
		err := cluster.Client.Create(ctx, svc, client.DryRunAll)
		return svc.Annotations, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := env.Poll(ctx, "the API server to write defaults", func(ctx context.Context) error {
		annotations, err := given(ctx, builder.Service())
		if err == nil && !maps.Equal(annotations, want) {
			err = fmt.Errorf("annotations %v, want %v", annotations, want)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	annotations, err := given(t.Context(), builder.Service(builder.DLB("listener-maxqps", "7")))
	if err != nil || annotations[loadbalancer.Prefix+"listener-maxqps"] != "7" || len(annotations) != len(want) {
		t.Errorf("a Service with its own value has %v, %v", annotations, err)
	}
	if annotations, err = given(t.Context(), builder.Service(builder.Class("example.com/other"))); err != nil || len(annotations) > 0 {
		t.Errorf("a Service of another class has %v, %v", annotations, err)
	}
}

// active waits until the API server applies the policies that reject a Service: it takes a moment to notice them.
func active(t *testing.T, svc *corev1.Service) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := env.Poll(ctx, "the API server to apply the policies", func(ctx context.Context) error {
		if err := cluster.Client.Create(ctx, svc.DeepCopy(), client.DryRunAll); !refusedByPolicy(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func refusedByPolicy(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

// unsaid reports whether the export lists a problem as left out.
func unsaid(catalog string, p corpus.Problem) bool {
	return slices.ContainsFunc(exported.Unsaid, func(u export.Unsaid) bool {
		return u.Catalog == catalog && u.Finding == p.ID && (u.Field == "" || u.Field == p.Field || u.Field == "metadata.annotations" || family(u.Field, p.Field))
	})
}

// family reports whether a path with a placeholder covers a path.
func family(pattern, path string) bool {
	before, _, found := strings.Cut(pattern, "{")
	return found && strings.HasPrefix(path, before)
}
