package policy

import "quaymaster.dev/internal/finding"

// Rules documents what a Service may break. A finding's severity is that of the policy's enforcement.
func Docs() []finding.Doc {
	return []finding.Doc{
		{ID: idMin, Severity: finding.Error, Help: "A value is below the least that a policy of the namespace allows."},
		{ID: idMax, Severity: finding.Error, Help: "A value is above the greatest that a policy of the namespace allows."},
		{ID: idAllowed, Severity: finding.Error, Help: "A value, or an element of a list, is not among those that a policy of the namespace allows."},
		{ID: idPattern, Severity: finding.Error, Help: "A value does not match the pattern that a policy of the namespace demands."},
		{ID: idRequired, Severity: finding.Error, Help: "An annotation is missing that a policy of the namespace requires, though it would have an effect."},
		{ID: idForbidden, Severity: finding.Error, Help: "An annotation is there that a policy of the namespace forbids."},
	}
}

// DefinitionRules documents what may be wrong with a policy.
func DefinitionDocs() []finding.Doc {
	return []finding.Doc{
		{ID: idKey, Severity: finding.Error, Help: "A default or a rule is for what is no annotation's key, or no plain key of the DLB. A form for one port belongs to a Service, not to a policy; so do hostname and load-balancer-id as defaults, and keys that others write."},
		{ID: idValue, Severity: finding.Error, Help: "A default or an allowed value is none of the key's values."},
		{ID: idBound, Severity: finding.Error, Help: "min or max is not of the key's type, min is above max, or forbidden stands beside something that judges values."},
		{ID: idExpression, Severity: finding.Error, Help: "A pattern is no regular expression of the RE2 syntax, or has more than 2000 steps with its repetitions written out."},
		{ID: idSelector, Severity: finding.Error, Help: "The namespaceSelector is no label selector. Until it is corrected the policy applies nowhere."},
		{ID: idCatalog, Severity: finding.Error, Help: "A policy chooses a catalog that does not exist."},
		{ID: idDefault, Severity: finding.Error, Help: "A default breaks a rule of the same policy, or of another one that applies to the same namespace: it would never be written. Against a policy that only audits it is a warning."},
		{ID: idConflict, Severity: finding.Warning, Help: "Two policies of the same priority have different defaults for one key. The first by name wins."},
		{ID: idSilent, Severity: finding.Warning, Help: "A Service that does not have the annotation breaks the rule, because the built-in default does, and the policy gives no other."},
		{ID: idSelectsNothing, Severity: finding.Warning, Help: "The namespaceSelector selects no namespace at the moment."},
		{ID: idDefaultOfOthers, Severity: finding.Warning, Help: "A rule is broken by another policy's default, which will not be written any more."},
	}
}
