package export_test

import (
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/tool/export"
	"quaymaster.dev/test/builder"
)

// compiled compiles a policy with the code of the API server.
func compiled(t *testing.T, p *admissionregistrationv1.ValidatingAdmissionPolicy) validating.Validator {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	with, without := cel.OptionalVariableDeclarations{HasAuthorizer: true}, cel.OptionalVariableDeclarations{}
	for _, v := range p.Spec.Variables {
		if r := compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, with, environment.StoredExpressions); r.Error != nil {
			t.Fatalf("%s, %s: %v", p.Name, v.Name, r.Error)
		}
	}
	var conditions, validations, messages []cel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	for _, v := range p.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		var message cel.ExpressionAccessor
		if v.MessageExpression != "" {
			message = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
		messages = append(messages, message)
	}
	compile := func(list []cel.ExpressionAccessor, o cel.OptionalVariableDeclarations) cel.ConditionEvaluator {
		return compiler.CompileCondition(list, o, environment.StoredExpressions)
	}
	matches, checks, texts := compile(conditions, with), compile(validations, with), compile(messages, without)
	for _, c := range []cel.ConditionEvaluator{matches, checks, texts} {
		for _, err := range c.CompilationErrors() {
			t.Fatalf("%s: %v", p.Name, err)
		}
	}
	matcher := matchconditions.NewMatcher(matches, p.Spec.FailurePolicy, "policy", "validate", p.Name)
	return validating.NewValidator(checks, matcher, compile(nil, with), texts, p.Spec.FailurePolicy, nil)
}

// denials returns the messages of the validations that fail if a Service is created. The API server reports the first one.
func denials(t *testing.T, v validating.Validator, svc *corev1.Service) []string {
	t.Helper()
	gvk, gvr := corev1.SchemeGroupVersion.WithKind("Service"), corev1.SchemeGroupVersion.WithResource("services")
	attributes := admission.NewAttributesRecord(svc, nil, gvk, svc.Namespace, svc.Name, gvr, "", admission.Create, &metav1.CreateOptions{}, true, nil)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(svc)}
	result := v.Validate(t.Context(), gvr, versioned, nil, &corev1.Namespace{}, apiservercel.RuntimeCELCostBudget, nil)
	var messages []string
	for _, d := range result.Decisions {
		if d.Evaluation == validating.EvalError {
			t.Errorf("an expression failed: %s", d.Message)
		}
		if d.Action == validating.ActionDeny {
			messages = append(messages, d.Message)
		}
	}
	return messages
}

// policyOf exports the policy of a catalog that denies.
func policyOf(t *testing.T, name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	p, err := export.Validating([]string{name}, export.Class{Name: config.DefaultLoadBalancerClass, Default: true})
	if err != nil {
		t.Fatal(err)
	}
	return p.Policies[0]
}

const hetzner = "load-balancer.hetzner.cloud/"

// A denial tells every problem at once.
func TestDenialsTellEveryProblem(t *testing.T) {
	v := compiled(t, policyOf(t, "hcloud"))
	svc := builder.Service(
		builder.Annotation(hetzner+"lokation", "fsn1"), builder.Annotation(hetzner+"typ", "lb11"),
		builder.Annotation(hetzner+"algorithm-type", "a\nb"), builder.Annotation(hetzner+"use-private-ip", strings.Repeat("x", 300)),
	)
	messages := denials(t, v, svc)
	if len(messages) < 3 {
		t.Fatalf("got %q", messages)
	}
	for _, want := range []string{
		"metadata.annotations[" + hetzner + "lokation]: ", "metadata.annotations[" + hetzner + "typ]: ",
		"metadata.annotations[" + hetzner + "algorithm-type]: Invalid value: a b: must be one of",
		"metadata.annotations[" + hetzner + "use-private-ip]: Invalid value: " + strings.Repeat("x", 100) + "…: must be ",
	} {
		if !strings.Contains(messages[0], want) {
			t.Errorf("the message lacks %q:\n%s", want, messages[0])
		}
	}
	if messages := denials(t, v, builder.Service(builder.Annotation(hetzner+"location", "fsn1"))); len(messages) > 0 {
		t.Errorf("a valid Service is denied: %q", messages)
	}
}

// Beyond the bounds of the list, and where it would be too long, there is still a message, and the Service is denied.
func TestDenialsOfLargeServices(t *testing.T) {
	v := compiled(t, policyOf(t, "hcloud"))
	for name, change := range map[string]func(*corev1.Service){
		"many unknown keys": func(svc *corev1.Service) {
			for i := range 90 {
				svc.Annotations[hetzner+strings.Repeat("k", 10+i%40)+string(rune('a'+i%26))] = "x"
			}
		},
		"many annotations": func(svc *corev1.Service) {
			for i := range 500 {
				svc.Annotations["example.com/"+strings.Repeat("k", 1+i%50)+string(rune('a'+i%26))] = "x"
			}
		},
		"a long value":        func(svc *corev1.Service) { svc.Annotations[hetzner+"name"] = strings.Repeat("é", 200_000) },
		"long texts of bytes": func(svc *corev1.Service) { svc.Annotations[hetzner+"type"] = strings.Repeat("é", 400) },
	} {
		t.Run(name, func(t *testing.T) {
			svc := builder.Service(builder.Annotation(hetzner+"algorithm-type", "fastest"))
			change(svc)
			messages := denials(t, v, svc)
			if len(messages) == 0 {
				t.Fatal("admitted")
			}
			for _, m := range messages {
				if m == "" || len(m) > 5*1024 || strings.HasPrefix(m, "failed expression") {
					t.Errorf("%d bytes: %.200s", len(m), m)
				}
			}
		})
	}
}

// Every catalog's policy compiles, stays far below the size that the API server accepts, and denies the invalid examples of
// the catalog within its budget, also all of them at once.
func TestPoliciesOfAllCatalogsAreEvaluated(t *testing.T) {
	for _, name := range library.BuiltIn().Services() {
		c, _ := library.BuiltIn().Find(name)
		t.Run(name, func(t *testing.T) {
			p := policyOf(t, name)
			// The type checker of the API server compiles all variables again for each validation.
			if len(p.Spec.Variables) > 5 {
				t.Errorf("the policy has %d variables", len(p.Spec.Variables))
			}
			if raw, err := p.Marshal(); err != nil || len(raw) > 900_000 {
				t.Errorf("the policy has %d bytes, %v", len(raw), err)
			}
			v := compiled(t, p)
			all := builder.Service()
			all.Annotations = map[string]string{}
			for _, a := range c.Document().Annotations {
				if a.Invalid != nil && !a.Family() && a.OnInvalid != "ignored" && len(a.ReadIf) == 0 {
					all.Annotations[a.Name] = *a.Invalid
				}
			}
			// Keys that decide which controller is responsible must not be invalid.
			for _, condition := range slices.Concat(c.Owns.When, c.Owns.Any, c.Owns.Also) {
				delete(all.Annotations, condition.Key)
			}
			// Within the bounds of the list, no value costs more than the API server spends on a policy.
			for _, part := range []string{"a,", "a=b,", "[{", "1.", "x"} {
				large := builder.Service()
				large.Annotations = map[string]string{}
				for _, a := range c.Document().Annotations[:min(len(c.Document().Annotations), 90)] {
					large.Annotations[a.Name] = strings.Repeat(part, 500/len(part))
				}
				denials(t, v, large)
			}
			// A denial without a known problem would be wrong.
			for _, a := range c.Document().Annotations {
				if a.Family() || a.Written {
					continue
				}
				for _, m := range denials(t, v, builder.Service(builder.Annotation(a.Name, a.Valid))) {
					if strings.Contains(m, "must be valid annotations of") {
						t.Errorf("%s: %s: %s", a.Name, a.Valid, m)
					}
				}
			}
			messages := denials(t, v, all)
			if len(messages) == 0 && len(all.Annotations) > 0 && len(c.Owns.Any) == 0 {
				t.Fatalf("admitted: %v", all.Annotations)
			}
			if len(messages) > 2 && strings.Count(messages[0], "metadata.annotations[") < min(len(messages)-2, 5) {
				t.Errorf("%d validations fail, but the message is %s", len(messages), messages[0])
			}
		})
	}
}
