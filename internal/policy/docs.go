package policy

import "quaymaster.dev/internal/finding"

// Docs documents the findings about Services. A finding's severity is that of the policy's enforcement.
func Docs() []finding.Doc {
	return []finding.Doc{
		finding.NewDoc(idMin, finding.Error, "A value is below the minimum that a policy of the namespace sets."),
		finding.NewDoc(idMax, finding.Error, "A value exceeds the maximum that a policy of the namespace sets."),
		finding.NewDoc(idAllowed, finding.Error,
			"A value, or an element of a list, is not among those that a policy of the namespace allows."),
		finding.NewDoc(idPattern, finding.Error, "A value does not match the pattern that a policy of the namespace sets."),
		finding.NewDoc(idRequired, finding.Error,
			"A policy of the namespace requires an annotation that is not set, although it would have an effect."),
		finding.NewDoc(idForbidden, finding.Error, "A policy of the namespace forbids an annotation that is set."),
		finding.NewDoc(IDTooLong, finding.Error,
			"The values of the Service are so long, or the patterns of the policies so expensive, that not every "+
				"rule can be applied within the time of an admission request. The remaining rules were not applied."),
		finding.NewDoc(IDInactive, finding.Error,
			"The policies of the namespace together exceed what is evaluated for each Service, so that one of them "+
				"is inactive. Its rules are not known, so no load balancer of the namespace is accepted."),
	}
}

// DefinitionDocs documents the findings about policies.
func DefinitionDocs() []finding.Doc {
	return []finding.Doc{
		finding.NewDoc(idKey, finding.Error,
			"A default or a rule has an invalid annotation key, or one that is not a plain key of the DLB: keys for "+
				"single ports belong to Services. As a default, hostname, load-balancer-id and keys that software "+
				"writes are not allowed either."),
		finding.NewDoc(idValue, finding.Error, "A default or an allowed value is not a valid value of the annotation."),
		finding.NewDoc(idBound, finding.Error,
			"min or max is not of the annotation's type, min exceeds max, or forbidden is combined with other "+
				"limits."),
		finding.NewDoc(idExpression, finding.Error,
			"A pattern is not a regular expression in RE2 syntax, or has more than 2000 steps when its repetitions "+
				"are expanded."),
		finding.NewDoc(idTooLarge, finding.Error,
			"The policies of a namespace are too many, or exceed 64 KiB or 10000 steps of patterns in all; cluster "+
				"policies may have 1 MiB and 100000 steps."),
		finding.NewDoc(idSelector, finding.Error,
			"The namespaceSelector is not a valid label selector. Until it is corrected, the policy applies to no "+
				"namespace."),
		finding.NewDoc(idCatalog, finding.Error, "A policy selects a catalog that does not exist."),
		finding.NewDoc(idDefault, finding.Error,
			"A default breaks a rule of the same policy, or of another one that applies to the same namespace, so "+
				"it would never be written. If the other policy only audits, the finding is a warning."),
		finding.NewDoc(idConflict, finding.Warning,
			"Two policies of the same priority have different defaults for the same key. The first by name wins."),
		finding.NewDoc(idSilent, finding.Warning,
			"Services without the annotation break the rule, because the built-in default does and the policy sets "+
				"no other one."),
		finding.NewDoc(idSelectsNothing, finding.Warning, "The namespaceSelector selects no namespace."),
		finding.NewDoc(idDefaultOfOthers, finding.Warning,
			"Another policy's default breaks a rule of this one, so it will no longer be written."),
	}
}
