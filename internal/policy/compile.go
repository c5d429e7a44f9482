package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
)

// The ids of what may be wrong with a policy.
const (
	idKey             = "policy-key"
	idValue           = "policy-value"
	idBound           = "policy-bound"
	idExpression      = "policy-expression"
	idSelector        = "policy-selector"
	idDefault         = "policy-default"
	idConflict        = "policy-conflict"
	idSilent          = "policy-silent-service"
	idSelectsNothing  = "policy-selects-nothing"
	idDefaultOfOthers = "policy-default-of-others"
	idCatalog         = "policy-catalog"
)

// Compile makes a policy of a namespace ready, and tells everything that is wrong with it. What is wrong is left out; the
// rest applies.
func Compile(p *v1alpha1.LoadBalancerPolicy) (*Policy, []finding.Finding) {
	c := &compiler{policy: &Policy{
		key: Key{Kind: v1alpha1.KindLoadBalancerPolicy, Namespace: p.Namespace, Name: p.Name},
	}}
	return c.compile(&p.Spec)
}

// CompileCluster does the same for a policy of the cluster. One with a bad selector selects nothing.
func CompileCluster(p *v1alpha1.ClusterLoadBalancerPolicy) (*Policy, []finding.Finding) {
	c := &compiler{policy: &Policy{
		key:      Key{Kind: v1alpha1.KindClusterLoadBalancerPolicy, Name: p.Name},
		priority: p.Spec.Priority,
	}}
	selector, err := metav1.LabelSelectorAsSelector(&p.Spec.NamespaceSelector)
	if err != nil {
		selector = labels.Nothing()
		c.report(idSelector, spec.Child("namespaceSelector"), "", "must be a label selector: "+err.Error(), "correct it; until then the policy applies nowhere")
	}
	c.policy.selector = selector
	c.choose(p.Spec.Catalogs)
	return c.compile(&p.Spec.LoadBalancerPolicySpec)
}

// choose takes the catalogs that there are.
func (c *compiler) choose(names []string) {
	known := CatalogNames()
	for i, name := range names {
		if slices.Contains(known, name) {
			c.policy.catalogs = append(c.policy.catalogs, name)
			continue
		}
		c.report(idCatalog, spec.Child("catalogs").Index(i), name, "must be one of "+strings.Join(known, ", ")+nearestCatalog(name), "correct the name")
	}
}

var spec = field.NewPath("spec")

// reserved begins the keys that tell what somebody else did: as defaults they would lie.
var reserved = []string{"kubectl.kubernetes.io/", "quaymaster.dev/"}

type compiler struct {
	policy   *Policy
	findings []finding.Finding
}

func (c *compiler) compile(s *v1alpha1.LoadBalancerPolicySpec) (*Policy, []finding.Finding) {
	c.policy.enforcement = cmp.Or(s.Enforcement, v1alpha1.EnforcementDeny)
	for i := range s.Rules {
		c.rule(&s.Rules[i], spec.Child("rules").Index(i))
	}
	c.policy.defaults = map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(s.Defaults)) {
		c.give(key, s.Defaults[key])
	}
	c.silent(s.Defaults)
	return c.policy, finding.Merge(c.findings)
}

func (c *compiler) report(id string, path *field.Path, value, message, remedy string) {
	c.findings = append(c.findings, finding.Finding{
		ID: id, Severity: finding.Error, Type: field.ErrorTypeInvalid, Field: path.String(), Value: value, Message: message, Remedy: remedy,
	})
}

// key checks an annotation key. One of the DLB must be a plain one that is known.
func (c *compiler) key(path *field.Path, key string) (d *annotation.Descriptor, ok bool) {
	if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
		c.report(idKey, path, key, "must be the key of an annotation: "+strings.Join(problems, "; "), "correct the key")
		return nil, false
	}
	if !strings.HasPrefix(key, loadbalancer.Prefix) {
		return nil, true
	}
	if d, ok = loadbalancer.Lookup(key); ok {
		return d, true
	}
	plain, _, hasPort := strings.Cut(strings.TrimPrefix(key, loadbalancer.Prefix), ".")
	if _, known := loadbalancer.Lookup(loadbalancer.Prefix + plain); known && hasPort {
		c.report(idKey, path, key, "must be a key without port: ports are of single Services", "write "+loadbalancer.Prefix+plain+", which holds for all ports")
	} else {
		c.report(idKey, path, key, "must be a known key under "+loadbalancer.Prefix+"; the nearest is "+loadbalancer.NearestKey(key), "correct the key")
	}
	return nil, false
}

// give takes a default that can be read and breaks none of the policy's own rules.
func (c *compiler) give(key, value string) {
	path := spec.Child("defaults").Key(key)
	d, ok := c.key(path, key)
	if !ok {
		return
	}
	if slices.ContainsFunc(reserved, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
		c.report(idKey, path, value, "must not be a default: others write the keys of "+strings.Join(reserved, " and "), "remove it")
		return
	}
	if d != nil {
		if _, err := d.Parse(value); err != nil {
			c.report(idValue, path, value, "must be "+d.Allowed()+detail(err), "write for example "+d.Example)
			return
		}
		if loadbalancer.Single(d) {
			c.report(idKey, path, value, "must not be a default: it is what one Service alone can have", "write it into that Service")
			return
		}
	} else if words, refused := catalog.Refuses(key, value); refused {
		c.report(idValue, path, value, "must be "+words, "correct the value")
		return
	}
	breaches := c.policy.breaches(key, value)
	for _, b := range breaches {
		c.report(idDefault, path, value, "must "+b.must+" by "+b.path.String(), "change the default or the rule")
	}
	if len(breaches) == 0 {
		c.policy.defaults[key] = value
	}
}

// rule takes a rule as far as it can be applied.
func (c *compiler) rule(given *v1alpha1.Rule, path *field.Path) {
	d, ok := c.key(path.Child("annotation"), given.Annotation)
	if !ok {
		return
	}
	r := rule{
		path: path, key: given.Annotation, descriptor: d, required: given.Required, forbidden: given.Forbidden, message: given.Message,
	}
	var err error
	if given.Min != nil {
		if r.min, err = newBound(given.Min, d); err != nil {
			c.report(idBound, path.Child("min"), given.Min.String(), err.Error(), "correct the bound")
		}
	}
	if given.Max != nil {
		if r.max, err = newBound(given.Max, d); err != nil {
			c.report(idBound, path.Child("max"), given.Max.String(), err.Error(), "correct the bound")
		}
	}
	if r.min != nil && r.max != nil && (r.min.duration != r.max.duration || r.min.value > r.max.value) {
		c.report(idBound, path.Child("min"), r.min.text, "must not be above max, "+r.max.text, "swap the two or correct one of them")
		r.min = nil
	}
	c.allowed(&r, given.Allowed)
	if given.Pattern != "" {
		if r.pattern, err = newPattern(given.Pattern); err != nil {
			c.report(idExpression, path.Child("pattern"), given.Pattern, "must be a regular expression: "+err.Error(), "correct it (syntax RE2)")
		}
	}
	if r.forbidden && (r.min != nil || r.max != nil || r.allowed != nil || r.pattern != nil || r.required) {
		c.report(idBound, path.Child("forbidden"), "true", "must not be set together with anything else: there is no value to judge", "remove forbidden or the others")
	}
	c.policy.rules = append(c.policy.rules, r)
}

// allowed takes the values that can be read.
func (c *compiler) allowed(r *rule, values []string) {
	path := r.path.Child("allowed")
	if len(values) > 0 && r.descriptor != nil && r.descriptor.Type() == "tags" {
		c.report(idValue, path, strings.Join(values, ", "), "must not be set: the values of the key are not one of a few", "write a pattern instead")
		return
	}
	for i, value := range values {
		if r.descriptor != nil {
			parsed, err := r.descriptor.Parse(value)
			if err != nil {
				c.report(idValue, path.Index(i), value, "must be "+r.descriptor.Allowed()+detail(err), "write for example "+r.descriptor.Example)
				continue
			}
			if isList(parsed) && parsed.Len() > 1 {
				c.report(idValue, path.Index(i), value, "must be one element of a list: each is looked up alone", "write the elements one by one")
				continue
			}
			r.allowedValues = append(r.allowedValues, parsed)
		}
		r.allowed = append(r.allowed, value)
	}
	if len(values) > 0 && r.allowed == nil {
		// Nothing that can be read is left: nothing is allowed, rather than everything.
		r.allowed = []string{}
	}
}

// silent warns of rules that a Service breaks by saying nothing: its author should hear that from the policy's, not from us.
func (c *compiler) silent(defaults map[string]string) {
	for i := range c.policy.rules {
		r := &c.policy.rules[i]
		if r.descriptor == nil || r.forbidden || r.required {
			continue
		}
		if _, given := defaults[r.key]; given {
			continue // if it is a bad one, that is told already
		}
		builtIn, err := r.descriptor.Parse(r.descriptor.Default)
		if err != nil {
			continue // it has none, or one that depends on the Service
		}
		for _, b := range r.judge(r.descriptor.Default, builtIn) {
			c.findings = append(c.findings, finding.Finding{
				ID: idSilent, Severity: finding.Warning, Field: b.path.String(),
				Message: fmt.Sprintf("a Service without the annotation breaks the rule, because %s holds for it", r.descriptor.Default),
				Remedy:  "add a default for the key, unless every Service is to name it",
			})
		}
	}
}

func detail(err error) string {
	if text := err.Error(); text != "" {
		return ": " + text
	}
	return ""
}
