package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

// The ids of findings about policies.
const (
	idKey             = "policy-key"
	idValue           = "policy-value"
	idBound           = "policy-bound"
	idTooLarge        = "policy-too-large"
	idExpression      = "policy-expression"
	idSelector        = "policy-selector"
	idDefault         = "policy-default"
	idConflict        = "policy-conflict"
	idSilent          = "policy-silent-service"
	idSelectsNothing  = "policy-selects-nothing"
	idDefaultOfOthers = "policy-default-of-others"
	idCatalog         = "policy-catalog"
	idIncomplete      = "policy-incomplete"
	idEnforcement     = "policy-enforcement"
	idSize            = "policy-size"
	idDuplicate       = "policy-duplicate"
)

// Compile compiles a LoadBalancerPolicy or ClusterLoadBalancerPolicy and validates it. Invalid defaults are left out, and
// invalid rules refuse every value; a policy that exceeds the limit by itself is inactive, and one with an invalid selector
// applies to no namespace.
func Compile(obj metav1.Object) (*Policy, []finding.Finding) { return New(obj, nil).compile(false) }

// New returns a LoadBalancerPolicy or ClusterLoadBalancerPolicy that Open compiles when it is needed, with the cache.
func New(obj metav1.Object, cache *Cache) *Policy {
	h := &head{key: Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}, created: obj.GetCreationTimestamp().Time, cache: cache}
	switch p := obj.(type) {
	case *v1alpha1.LoadBalancerPolicy:
		h.key.Kind = v1alpha1.KindLoadBalancerPolicy
		return newPolicy(h, &p.Spec, nil)
	case *v1alpha1.ClusterLoadBalancerPolicy:
		h.key.Kind, h.priority = v1alpha1.KindClusterLoadBalancerPolicy, p.Spec.Priority
		h.selectNamespaces(&p.Spec)
		return newPolicy(h, &p.Spec.LoadBalancerPolicySpec, p.Spec.Catalogs)
	}
	panic(fmt.Sprintf("%T is not a policy", obj))
}

func (h *head) selectNamespaces(s *v1alpha1.ClusterLoadBalancerPolicySpec) {
	c := &compiler{}
	selector, err := metav1.LabelSelectorAsSelector(&s.NamespaceSelector)
	if err != nil {
		selector = labels.Nothing()
		c.report(idSelector, spec.Child("namespaceSelector"), "", "must be a label selector: "+err.Error(),
			"correct it; until then the policy applies to no namespace")
	}
	h.selector, h.catalogs = selector, c.knownCatalogs(s.Catalogs)
	h.problems = c.findings
}

func newPolicy(h *head, s *v1alpha1.LoadBalancerPolicySpec, catalogs []string) *Policy {
	h.enforcement = cmp.Or(s.Enforcement, v1alpha1.EnforcementDeny)
	raw, err := json.Marshal(s)
	h.size.bytes = len(raw)
	if most := h.key.limit().size; err == nil && h.size.bytes <= most.bytes {
		// A pattern may be small and compile to megabytes, so its steps are counted without compiling it.
		for i := 0; i < len(s.Rules) && h.size.steps <= most.steps; i++ {
			n, _ := countSteps(s.Rules[i].Pattern) // an invalid one is not compiled
			h.size.steps += n
		}
		if h.size.within(most) {
			h.source.Store(&raw)
			c := &compiler{findings: h.problems}
			c.shape(h.key.Kind, s, catalogs)
			h.problems = c.findings
		}
	}
	return &Policy{head: h}
}

// knownCatalogs returns the existing catalogs and reports the others.
func (c *compiler) knownCatalogs(names []string) (existing []string) {
	for i, name := range names {
		if slices.Contains(library.BuiltIn().Services(), name) {
			existing = append(existing, name)
			continue
		}
		remedy := "correct the name"
		if suggestion, ok := annotation.Suggest(name, library.BuiltIn().Services()); ok {
			remedy = fmt.Sprintf("did you mean %q?", suggestion)
		}
		c.report(idCatalog, spec.Child("catalogs").Index(i), name,
			"must be one of "+strings.Join(library.BuiltIn().Services(), ", "), remedy)
		c.last().Subject = "spec.catalogs"
	}
	return existing
}

var spec = field.NewPath("spec")

// reserved are the prefixes of keys in which software records what it did: defaults would record something wrong.
var reserved = []string{"kubectl.kubernetes.io/", "quaymaster.dev/"}

// maxItems is how many rules, and how many defaults, the API server accepts.
const maxItems = 64

type compiler struct {
	policy   *Policy
	findings []finding.Finding
	work     *work
	// quiet is true if the findings are not needed: suggestions take most of the time.
	quiet bool
}

// compile compiles the spec of the policy.
func (p *Policy) compile(quiet bool) (*Policy, []finding.Finding) {
	c := &compiler{
		policy: &Policy{head: p.head, parts: &parts{defaults: map[string]string{}}},
		work:   newWork(), findings: slices.Clone(p.problems), quiet: quiet,
	}
	if most := p.key.limit().size; !p.size.within(most) {
		c.findings = append(c.findings, tooLarge(p, 1, p.size))
		return p.off(), c.findings
	}
	s := p.spec()
	if s == nil {
		return p.off(), c.findings
	}
	// The API server accepts no more; other callers could send many.
	for i := range s.Rules[:min(len(s.Rules), maxItems)] {
		path, first := spec.Child("rules").Index(i), len(c.findings)
		c.rule(&s.Rules[i], path)
		c.subjects(first, path, s.Rules[i].Annotation)
	}
	keys := slices.Sorted(maps.Keys(s.Defaults))
	for _, key := range keys[:min(len(keys), maxItems)] {
		c.addDefault(key, s.Defaults[key])
	}
	c.warnUnset(s.Defaults)
	return c.policy, finding.Merge(c.findings)
}

func (c *compiler) report(id string, path *field.Path, value, message, remedy string) {
	c.findings = append(c.findings, finding.Finding{
		ID: id, Check: id + ": " + message, Severity: finding.Error, Type: field.ErrorTypeInvalid, Field: path.String(),
		Value: value, Message: message, Remedy: remedy,
	})
}

// last returns the finding that was reported last.
func (c *compiler) last() *finding.Finding { return &c.findings[len(c.findings)-1] }

// key validates an annotation key. A key of Quaymaster's own controller must be a plain key that its catalog describes.
func (c *compiler) key(path *field.Path, key string) (own *library.Catalog, known *document.Annotation, ok bool) {
	if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
		c.report(idKey, path, key, "must be an annotation key: "+strings.Join(problems, "; "), "correct the key")
		return nil, nil, false
	}
	own, isOwn := library.BuiltIn().OwnCatalog(key)
	if !isOwn {
		return nil, nil, true
	}
	if known, ok = own.Plain(key); ok {
		return own, known, true
	}
	if plain, formed := own.HasPortForm(key); formed {
		c.report(idKey, path, key, "must not name a port: ports belong to single Services",
			"use "+plain)
		return nil, nil, false
	}
	if c.quiet {
		return nil, nil, false
	}
	remedy := "look for the right key with quayctl explain"
	if suggestion, near := own.Suggest(key); near {
		remedy = fmt.Sprintf("did you mean %q?", suggestion)
	}
	c.report(idKey, path, key, "unknown annotation of "+own.Title, remedy)
	return nil, nil, false
}

// addDefault adds a default if it is valid and satisfies the policy's own rules.
func (c *compiler) addDefault(key, value string) {
	path := spec.Child("defaults").Key(key)
	_, known, ok := c.key(path, key)
	if !ok {
		return
	}
	if slices.ContainsFunc(reserved, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
		c.report(idKey, path, value, "must not be a default: keys beginning with "+
			strings.Join(reserved, " or ")+" are written by software", "remove it")
		return
	}
	if known != nil {
		if _, err := known.Parse(value); err != nil {
			c.report(idValue, path, value, mustBe(known, err), "for example "+known.Valid)
			return
		}
		if known.Single {
			c.report(idKey, path, value, "must not be a default: only one Service can have a given value",
				"set it in that Service")
			return
		}
	} else if expected, refused := library.BuiltIn().Refuses(key, value); refused {
		c.report(idValue, path, value, "must be "+expected, "correct the value")
		return
	}
	breaches := slices.DeleteFunc(c.policy.breaches(key, nil, value, c.work), func(b breach) bool {
		return b.remedy == askAuthor // the rule is reported already
	})
	for _, b := range breaches {
		c.report(idDefault, path, value, b.message+" "+b.path.String(), "change the default or the rule")
		c.last().Check = idDefault + ": " + b.message // rules may move
	}
	if len(breaches) == 0 {
		c.policy.defaults[key] = value
		c.policy.keys = append(c.policy.keys, key)
	}
}

// mustBe returns the message about an invalid value.
func mustBe(a *document.Annotation, err error) string {
	text := "must be " + a.Expected()
	if reason := err.Error(); reason != "" {
		text += ": " + reason
	}
	return text
}

// rule adds a rule without its invalid parts.
func (c *compiler) rule(given *v1alpha1.Rule, path *field.Path) {
	own, known, ok := c.key(path.Child("annotation"), given.Annotation)
	if !ok {
		return
	}
	r := rule{
		path: path, key: given.Annotation, known: known, required: given.Required, forbidden: given.Forbidden,
		message: given.Message,
	}
	if own != nil {
		r.catalog = own.Name
	}
	var err error
	if given.Min != nil {
		if r.min, err = newBound(given.Min, known); err != nil {
			c.invalid(&r, idBound, "min", given.Min.String(), err.Error(), "correct the bound")
		}
	}
	if given.Max != nil {
		if r.max, err = newBound(given.Max, known); err != nil {
			c.invalid(&r, idBound, "max", given.Max.String(), err.Error(), "correct the bound")
		}
	}
	switch {
	case r.min == nil || r.max == nil:
	case r.min.duration != r.max.duration:
		c.invalid(&r, idBound, "min", r.min.text, "must be of the type of max, "+r.max.text, "use integers or durations for both")
		r.min = nil
	case r.min.number > r.max.number:
		c.invalid(&r, idBound, "min", r.min.text, "must not exceed max, "+r.max.text, "swap the two or correct one of them")
		r.min = nil
	}
	c.allowed(&r, given.Allowed)
	if given.Pattern != "" {
		if r.pattern, err = newPattern(given.Pattern); err != nil {
			c.invalid(&r, idExpression, "pattern", given.Pattern,
				"must be a regular expression in RE2 syntax: "+err.Error(), "correct it")
		}
	}
	if r.forbidden && (r.min != nil || r.max != nil || r.allowed != nil || r.pattern != nil || r.required) {
		c.report(idBound, path.Child("forbidden"), "true",
			"must not be combined with other limits: there is no value to check", "remove forbidden or the others")
	}
	c.policy.rules = append(c.policy.rules, r)
}

// invalid reports an invalid part of a rule, which then refuses every value: a mistake must not lift the limit.
func (c *compiler) invalid(r *rule, id, part, value, message, remedy string) {
	c.report(id, r.path.Child(part), value, message, remedy)
	r.invalid = append(r.invalid, breach{
		"policy-" + part, field.ErrorTypeInvalid, r.path.Child(part), "cannot be checked: invalid " + part + " set by",
		askAuthor,
	})
}

// allowed adds the allowed values that are valid.
func (c *compiler) allowed(r *rule, values []string) {
	path := r.path.Child("allowed")
	if len(values) > 0 && r.known != nil && r.known.Type.Type == annotation.Map {
		c.report(idValue, path, strings.Join(values, ", "), "must not be set: the annotation holds keys and values",
			"use a pattern instead")
		return
	}
	for i, value := range values {
		if r.known != nil {
			parsed, err := r.known.Parse(value)
			if err != nil {
				c.report(idValue, path.Index(i), value, mustBe(r.known, err), "for example "+r.known.Valid)
				continue
			}
			if r.isList() && len(parsed.List) > 1 {
				c.report(idValue, path.Index(i), value,
					"must be one element of a list: elements are compared one by one", "list the elements separately")
				continue
			}
			r.allowedValues = append(r.allowedValues, parsed)
		}
		r.allowed = append(r.allowed, value)
	}
	if len(values) > 0 && r.allowed == nil {
		// Without a valid value, the rule allows nothing rather than everything.
		r.allowed = []string{}
	}
}

// warnUnset warns about rules that Services without the annotation break because of its built-in default. The author of
// the policy should know that before the authors of Services do.
func (c *compiler) warnUnset(defaults map[string]string) {
	for i := range c.policy.rules {
		r := &c.policy.rules[i]
		if r.known == nil || r.known.Default == "" || r.forbidden || r.required {
			continue // there is no default, or one that depends on the Service
		}
		if _, set := defaults[r.key]; set {
			continue // an invalid one is reported already
		}
		value, _ := r.known.Parse(r.known.Default) // catalogs have valid defaults
		for _, b := range r.check(r.known.Default, &value, c.work) {
			c.findings = append(c.findings, finding.Finding{
				ID: idSilent, Severity: finding.Warning, Field: b.path.String(),
				Message: "Services without the annotation break the rule, because their default is " + r.known.Default,
				Remedy:  "add a default to the policy, unless every Service must set the annotation",
			})
		}
	}
}
