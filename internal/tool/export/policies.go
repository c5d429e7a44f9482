// Package export converts the checks of catalogs to other formats: ValidatingAdmissionPolicy and
// MutatingAdmissionPolicy for clusters without webhooks, and a JSON schema for editors. It lists the findings that CEL
// cannot express.
package export

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/export/cel"
)

// Unsaid is a finding of the webhook and the linter that the exported policies omit.
type Unsaid struct {
	Catalog string `json:"catalog"`
	// Finding is the id, Field the path; an empty path stands for all fields.
	Finding string `json:"finding"`
	Field   string `json:"field,omitempty"`
	Why     string `json:"why"`
}

// Class says which Services Quaymaster's own controller serves.
type Class struct {
	// Name is the loadBalancerClass of these Services.
	Name string
	// Default is true if Services without a class are among them.
	Default bool
}

// Policies holds ValidatingAdmissionPolicies with their bindings: for each catalog one that denies and one that warns.
type Policies struct {
	Policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	Bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
	// Unsaid lists the findings that the policies omit.
	Unsaid []Unsaid
}

// action is a kind of policies of a catalog.
type action struct {
	suffix     string
	severity   finding.Severity
	validation admissionregistrationv1.ValidationAction
	resources  []string
}

func (a action) denies() bool { return a.validation == admissionregistrationv1.Deny }

// actions are the kinds of policies of a catalog. A write of the status can change annotations, too: it may be denied,
// but its author is a controller, which reads no warnings.
var actions = []action{
	{"", finding.Error, admissionregistrationv1.Deny, []string{"services", "services/status"}},
	{"-warnings", finding.Warning, admissionregistrationv1.Warn, []string{"services"}},
}

// Validating returns the policies of existing catalogs.
func Validating(names []string, own Class) (Policies, error) {
	var all Policies
	for _, name := range names {
		if err := OfServices(name); err != nil {
			return Policies{}, err
		}
		v, owned, err := checks(name, own)
		if err != nil {
			return Policies{}, err
		}
		all.Unsaid = append(all.Unsaid, v.unsaid...)
		for _, a := range actions {
			var selected []check
			for _, c := range v.checks {
				if c.severity == a.severity {
					selected = append(selected, c)
				}
			}
			if len(selected) == 0 {
				continue
			}
			p, err := v.policy("quaymaster-"+name+a.suffix, owned, selected, a)
			if err != nil {
				return Policies{}, err
			}
			all.Policies = append(all.Policies, p)
			all.Bindings = append(all.Bindings, binding(p.Name, a.validation))
		}
	}
	return all, nil
}

// OfServices returns an error for a catalog of other objects.
func OfServices(name string) error {
	if c, found := library.BuiltIn().Find(name); found && len(c.Kinds) > 0 {
		return fmt.Errorf("the catalog %s describes objects of kind %s; policies and schemas can only be exported for Services",
			name, strings.Join(c.Kinds, ", "))
	}
	return nil
}

// checks returns the checks of a catalog and the expression for the Services that its controller acts on.
func checks(name string, own Class) (v *vendor, owned string, err error) {
	c, found := library.BuiltIn().Find(name)
	if !found {
		return nil, "", fmt.Errorf("unknown catalog %q", name)
	}
	v = newVendor(c)
	owns := c.Owns
	if c.Own && own.Name != "" {
		owns.Classes = append(slices.Clip(owns.Classes), own.Name)
	}
	if c.Own && !own.Default {
		owns.NoClass = false
	}
	owned, err = v.entries.ownership(owns)
	return v, owned, err
}

// ownership returns an expression that is true for Services that the controller acts on.
func (e entries) ownership(o document.Ownership) (string, error) {
	s := inObject.after
	class := "false"
	switch {
	case o.AnyClass:
		class = "true"
	default:
		if o.NoClass {
			class = "!has(object.spec.loadBalancerClass)"
		}
		for _, pattern := range o.Classes {
			one := "object.spec.?loadBalancerClass.orValue('') == " + cel.Quote(pattern)
			if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
				one = "object.spec.?loadBalancerClass.orValue('').startsWith(" + cel.Quote(prefix) + ")"
			}
			if class == "false" {
				class = one
			} else {
				class = cel.Or(class, one)
			}
		}
	}
	owned := class
	for _, list := range slices.Concat(oneByOne(o.When), [][]document.Condition{o.Any}) {
		may, err := e.mayHold(list, s)
		if err != nil {
			return "", err
		}
		owned = cel.And(owned, may)
	}
	for _, c := range o.Also {
		also, err := e.knownToHold(c, s)
		if err != nil {
			return "", err
		}
		owned = cel.Or("("+owned+")", "("+also+")")
	}
	return owned, nil
}

func oneByOne(list []document.Condition) [][]document.Condition {
	var single [][]document.Condition
	for _, c := range list {
		single = append(single, []document.Condition{c})
	}
	return single
}

func (v *vendor) policy(
	name, owned string, checks []check, a action,
) (*admissionregistrationv1.ValidatingAdmissionPolicy, error) {
	problems, exact, err := v.problems(checks)
	if err != nil {
		return nil, err
	}
	ofLarge := "false"
	if a.denies() {
		const relevant = "(!has(request.subResource) || object.metadata.?annotations != oldObject.metadata.?annotations)"
		problems, ofLarge = cel.And(relevant, problems), changedAtAll
	}
	problems = "(" + tooLarge() + " ? " + ofLarge + " : " + problems + ")"
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta:   typeMeta("ValidatingAdmissionPolicy"),
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    new(admissionregistrationv1.Ignore),
			MatchConstraints: requests(a.resources),
			MatchConditions:  condition("has-problems", owned, problems),
			Variables:        variables(),
		},
	}
	if a.denies() { // the API server writes a warning for each validation
		together, err := v.together(checks, exact)
		if err != nil {
			return nil, err
		}
		p.Spec.Validations = append(limitValidations(), together...)
	}
	for _, c := range checks {
		v, err := c.validation()
		if err != nil {
			return nil, err
		}
		p.Spec.Validations = append(p.Spec.Validations, v)
	}
	return p, nil
}

// condition returns a match condition that selects load balancers of the controller. The API server evaluates every
// condition of a list, even after a false one, but stops within an expression.
func condition(name, owned, selected string) []admissionregistrationv1.MatchCondition {
	expression := cel.And("object.spec.type == 'LoadBalancer' && !has(object.metadata.deletionTimestamp)", owned)
	return []admissionregistrationv1.MatchCondition{{Name: name, Expression: cel.And(expression, selected)}}
}

func requests(resources []string) *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{
				admissionregistrationv1.Create, admissionregistrationv1.Update,
			},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: resources,
			},
		},
	}}}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
}

func binding(
	policy string, action admissionregistrationv1.ValidationAction,
) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   typeMeta("ValidatingAdmissionPolicyBinding"),
		ObjectMeta: metav1.ObjectMeta{Name: policy},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy, ValidationActions: []admissionregistrationv1.ValidationAction{action},
		},
	}
}
