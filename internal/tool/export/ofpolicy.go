package export

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/tool/export/cel"
)

// ofPolicy is a policy of the CRDs whose rules become validations.
type ofPolicy struct {
	// name is as in messages, such as LoadBalancerPolicy "limits".
	name   string
	spec   *v1alpha1.LoadBalancerPolicySpec
	unsaid []Unsaid
}

// OfNamespace adds the rules of a LoadBalancerPolicy, which must be valid, as a policy with a binding for its namespace.
func (p *Policies) OfNamespace(of *v1alpha1.LoadBalancerPolicy, own Class) error {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: of.Namespace}}
	return p.add("quaymaster-policy-"+of.Namespace+"-"+of.Name, v1alpha1.KindLoadBalancerPolicy, of.Name, &of.Spec, selector, own)
}

// OfCluster adds the rules of a ClusterLoadBalancerPolicy, which must be valid, as a policy with a binding for the namespaces
// that it selects.
func (p *Policies) OfCluster(of *v1alpha1.ClusterLoadBalancerPolicy, own Class) error {
	if len(of.Spec.Catalogs) > 0 {
		p.Unsaid = append(p.Unsaid, Unsaid{of.Name, "", "spec.catalogs", "exported catalogs apply to every namespace that their bindings select"})
	}
	return p.add("quaymaster-clusterpolicy-"+of.Name, v1alpha1.KindClusterLoadBalancerPolicy, of.Name, &of.Spec.LoadBalancerPolicySpec,
		&of.Spec.NamespaceSelector, own)
}

func (p *Policies) add(
	name, kind, of string, spec *v1alpha1.LoadBalancerPolicySpec, namespaces *metav1.LabelSelector, own Class,
) error {
	_, owned, err := checks(loadbalancer.Catalog, own)
	if err != nil {
		return err
	}
	o := &ofPolicy{name: fmt.Sprintf("%s %q", kind, of), spec: spec}
	var validations []admissionregistrationv1.Validation
	for i := range spec.Rules {
		validations = append(validations, o.rule(i, owned)...)
	}
	if len(spec.Defaults) > 0 {
		o.omit("", "spec.defaults", "a ValidatingAdmissionPolicy changes nothing: a Service must set the annotations itself")
	}
	for i, u := range o.unsaid {
		o.unsaid[i].Catalog = of + u.Catalog
	}
	p.Unsaid = append(p.Unsaid, o.unsaid...)
	if len(validations) == 0 {
		return nil
	}
	p.Policies = append(p.Policies, &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta:   typeMeta("ValidatingAdmissionPolicy"),
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    new(admissionregistrationv1.Ignore),
			MatchConstraints: requests([]string{"services", "services/status"}),
			MatchConditions:  condition("load-balancer", "", "("+tooLarge()+" ? "+changedAtAll+" : true)"),
			Variables:        variables(),
			Validations:      append(limitValidations(), validations...),
		},
	})
	b := binding(name, enforced(spec.Enforcement))
	b.Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: namespaces}
	p.Bindings = append(p.Bindings, b)
	return nil
}

func enforced(e v1alpha1.Enforcement) admissionregistrationv1.ValidationAction {
	switch e {
	case v1alpha1.EnforcementWarn:
		return admissionregistrationv1.Warn
	case v1alpha1.EnforcementAudit:
		return admissionregistrationv1.Audit
	default:
		return admissionregistrationv1.Deny
	}
}

func (o *ofPolicy) omit(id, path, why string) { o.unsaid = append(o.unsaid, Unsaid{"", id, path, why}) }

// rule returns the validations of a rule. A value that the Service had before is accepted.
func (o *ofPolicy) rule(index int, owned string) []admissionregistrationv1.Validation {
	r := &o.spec.Rules[index]
	path := fmt.Sprintf("spec.rules[%d]", index)
	known, spelled := spellings(r.Annotation)
	ofOthers := "false"
	if known != nil {
		ofOthers = cel.Not(owned)
		if known.Default != "" {
			o.omit("", path, "the default of the key is not compared with the rule")
		}
	}
	var all []admissionregistrationv1.Validation
	add := func(expression, text, remedy string) {
		all = append(all, admissionregistrationv1.Validation{
			Expression: cel.Or("variables.tooLarge", cel.Or(ofOthers, expression)), Reason: new(metav1.StatusReasonInvalid),
			Message: fmt.Sprintf("metadata.annotations[%s]: %s %s; %s", r.Annotation, text, o.name, orText(r.Message, remedy)),
		})
	}
	values := func(broken, text, remedy string) {
		add("!variables.changed.exists(k, "+cel.And(spelled, broken)+")", text, remedy)
	}
	if r.Required {
		set := func(in string) string { return in + ".exists(k, " + spelled + ")" }
		add(cel.Or(set("variables.annotations"), "variables.wasBalancer && !"+set("variables.before")), "must be set: required by", "set the annotation")
	}
	if r.Forbidden {
		values("true", "must not be set: forbidden by", "remove the key")
	}
	for _, b := range []struct {
		given          *intstr.IntOrString
		operator, part string
		text, remedy   string
	}{
		{r.Min, "<", "min", "is below the minimum of %s set by", "raise the value"},
		{r.Max, ">", "max", "exceeds the maximum of %s set by", "lower the value"},
	} {
		if b.given != nil {
			values(compared(known, b.operator, b.given), fmt.Sprintf(b.text, b.given.String()), b.remedy)
		}
	}
	if r.Allowed != nil {
		if broken, err := notAllowed(known, r.Allowed); err != nil {
			o.omit("policy-allowed", path+".allowed", err.Error())
		} else {
			values(broken, "must be one of "+strings.Join(r.Allowed, ", ")+", as set by", "use one of these")
		}
	}
	if r.Pattern != "" {
		const v = "variables.annotations[k]"
		values("("+v+".size() > 8192 || !"+v+".matches("+cel.Quote(r.Pattern)+"))", "must match "+r.Pattern+", as set by", "correct the value")
	}
	return all
}

func orText(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// spellings returns the description of a key in the own catalog, or nil, and an expression that is true for the keys k that
// a rule about it governs.
func spellings(key string) (known *document.Annotation, expression string) {
	names, forms := []string{key}, false
	for _, name := range library.BuiltIn().Names() {
		c, _ := library.BuiltIn().Find(name)
		if a, found := c.Plain(key); found {
			names = append(names, a.Names()...)
			if c.Own {
				known, forms = a, a.PortForm
			}
		}
	}
	slices.Sort(names)
	if expression = cel.In("k", slices.Compact(names)); forms {
		expression = cel.Or(expression, "k.startsWith("+cel.Quote(key+".")+")")
	}
	return known, expression
}

// compared returns an expression that is true if the value of the key k is beyond a bound. The catalog reports an invalid
// value of a key that it knows; any other that is not a number is beyond every bound.
func compared(known *document.Annotation, operator string, bound *intstr.IntOrString) string {
	const v = "variables.annotations[k]"
	number, pattern, than := "int("+v+")", "[+-]?[0-9]{1,18}", bound.String()
	if bound.Type == intstr.String {
		number, pattern, than = "duration("+v+")", `[+-]?([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,6}`, "duration("+cel.Quote(bound.StrVal)+")"
	}
	beyond := number + " " + operator + " " + than
	if known != nil {
		return cel.Matches(v, pattern) + " && " + beyond
	}
	return "(!" + cel.Matches(v, pattern) + " || " + beyond + ")"
}

// notAllowed returns an expression that is true if the value of the key k is none of those that are allowed.
func notAllowed(known *document.Annotation, allowed []string) (string, error) {
	const v = "variables.annotations[k]"
	if known == nil {
		return "!(" + cel.In(v, allowed) + ")", nil
	}
	switch t := known.Type; t.Type {
	case annotation.List:
		return split(&t, v) + ".exists(e, !(" + cel.In(element(&t, "e"), allowed) + "))", nil
	case annotation.Text, annotation.Enum:
		return "!(" + cel.In(normal(&t, v), normalWords(&t, allowed)) + ")", nil
	default:
		return "", unsupported("a value can be written in several ways, which CEL cannot compare")
	}
}
