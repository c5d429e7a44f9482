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

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
)

// Unsaid is a finding of the webhook and the linter that the exported policies omit.
type Unsaid struct {
	Catalog string `json:"catalog"`
	// Finding is the id, Field the path; an empty path stands for all fields.
	Finding string `json:"finding"`
	Field   string `json:"field,omitempty"`
	Why     string `json:"why"`
}

// Policies holds ValidatingAdmissionPolicies with their bindings: for each catalog one that denies and one that warns.
type Policies struct {
	Policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	Bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
	// Unsaid lists the findings that the policies omit.
	Unsaid []Unsaid
}

// actions are the kinds of policies of a catalog.
var actions = []struct {
	suffix   string
	severity finding.Severity
	action   admissionregistrationv1.ValidationAction
}{
	{"", finding.Error, admissionregistrationv1.Deny},
	{"-warnings", finding.Warning, admissionregistrationv1.Warn},
}

// Validating returns the policies of existing catalogs. class is the loadBalancerClass that Quaymaster's own controller
// serves.
func Validating(names []string, class string) (Policies, error) {
	var all Policies
	for _, name := range names {
		v, owned, err := checks(name, class)
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
			p, err := policy("quaymaster-"+name+a.suffix, owned, selected)
			if err != nil {
				return Policies{}, err
			}
			all.Policies = append(all.Policies, p)
			all.Bindings = append(all.Bindings, binding(p.Name, a.action))
		}
	}
	return all, nil
}

// checks returns the checks of a catalog and the expression for the Services that its controller acts on. class is the
// loadBalancerClass that Quaymaster's own controller serves.
func checks(name, class string) (v *vendor, owned string, err error) {
	c, found := catalog.Find(name)
	if !found {
		return nil, "", fmt.Errorf("unknown catalog %q", name)
	}
	v = newVendor(c)
	owns := c.Owns
	if c.Own && class != "" {
		owns.Classes = append(slices.Clip(owns.Classes), class)
	}
	owned, err = v.entries.ownership(owns)
	return v, owned, err
}

// ownership returns an expression that is true for Services that the controller acts on.
func (e entries) ownership(o catalog.Ownership) (string, error) {
	s := scope{"object.metadata.?annotations.orValue({})", "object"}
	class := "false"
	switch {
	case o.AnyClass:
		class = "true"
	default:
		if o.NoClass {
			class = "!has(object.spec.loadBalancerClass)"
		}
		for _, pattern := range o.Classes {
			one := "object.spec.?loadBalancerClass.orValue('') == " + quote(pattern)
			if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
				one = "object.spec.?loadBalancerClass.orValue('').startsWith(" + quote(prefix) + ")"
			}
			if class == "false" {
				class = one
			} else {
				class = or(class, one)
			}
		}
	}
	owned := class
	for _, list := range slices.Concat(oneByOne(o.When), [][]catalog.Condition{o.Any}) {
		may, err := e.mayHold(list, s)
		if err != nil {
			return "", err
		}
		owned = and(owned, may)
	}
	for _, c := range o.Also {
		also, err := e.knownToHold(c, s)
		if err != nil {
			return "", err
		}
		owned = or("("+owned+")", "("+also+")")
	}
	return owned, nil
}

func oneByOne(list []catalog.Condition) [][]catalog.Condition {
	var single [][]catalog.Condition
	for _, c := range list {
		single = append(single, []catalog.Condition{c})
	}
	return single
}

func policy(name, owned string, checks []check) (*admissionregistrationv1.ValidatingAdmissionPolicy, error) {
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta:   typeMeta("ValidatingAdmissionPolicy"),
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    new(admissionregistrationv1.Ignore),
			MatchConstraints: services(),
			MatchConditions:  conditions(owned),
			Variables: []admissionregistrationv1.Variable{
				{Name: "annotations", Expression: "object.metadata.?annotations.orValue({})"},
				{Name: "wasBalancer", Expression: "oldObject != null && oldObject.spec.type == 'LoadBalancer'"},
				{
					Name:       "before",
					Expression: "variables.wasBalancer ? oldObject.metadata.?annotations.orValue({}) : {}",
				},
			},
		},
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

// validation returns the CEL validation of a check. A problem that the old Service already has passes: the request does
// not introduce it.
func (c check) validation() (admissionregistrationv1.Validation, error) {
	expression, err := c.holds(newScope)
	if err != nil {
		return admissionregistrationv1.Validation{}, err
	}
	v := admissionregistrationv1.Validation{Message: c.message, Reason: new(metav1.StatusReasonInvalid)}
	if c.key != "" {
		unchanged := "variables.wasBalancer && " + oldScope.has(c.key) + " && " +
			oldScope.at(c.key) + " == " + newScope.at(c.key)
		v.Message = c.field + ": " + c.message
		v.MessageExpression = quote(c.field+": Invalid value: ") + " + " +
			newScope.at(c.key) + " + " + quote(": "+c.message)
		if !c.selfContained {
			held, err := c.holds(oldScope)
			if err != nil {
				return v, err
			}
			unchanged += " && !(" + held + ")"
		}
		expression += " || (" + unchanged + ")"
	} else if !c.selfContained {
		held, err := c.holds(oldScope)
		if err != nil {
			return v, err
		}
		expression = "(" + expression + ") || (variables.wasBalancer && !(" + held + "))"
	}
	v.Expression = expression
	return v, nil
}

// conditions returns the match conditions, which select the Services that are validated.
func conditions(owned string) []admissionregistrationv1.MatchCondition {
	all := []admissionregistrationv1.MatchCondition{
		{Name: "alive", Expression: "!has(object.metadata.deletionTimestamp)"},
		{Name: "load-balancer", Expression: "object.spec.type == 'LoadBalancer'"},
	}
	if owned != "true" {
		all = append(all, admissionregistrationv1.MatchCondition{Name: "owned", Expression: owned})
	}
	return all
}

func services() *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{
				admissionregistrationv1.Create, admissionregistrationv1.Update,
			},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"},
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
