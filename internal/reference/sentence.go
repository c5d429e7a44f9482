package reference

import (
	"fmt"
	"strings"

	"quaymaster.dev/internal/catalog"
)

// outcomes are what controllers do with mistakes.
var outcomes = map[catalog.Outcome]string{
	catalog.Refused: "refused by the controller or its cloud",
	catalog.Misread: "read as something else, in silence and with harm",
	catalog.Ignored: "ignored in silence",
}

// sentences say what becomes of a bad value, and what else the annotation depends on.
func sentences(a *catalog.Annotation) []string {
	all := []string{"A bad value is " + outcome(a.OnInvalid, a.Consequence) + "."}
	for i := range a.Variants {
		all = append(all, variant(a, &a.Variants[i]))
	}
	if len(a.ReadIf) > 0 {
		var beside []string
		for _, c := range a.ReadIf {
			beside = append(beside, strings.TrimPrefix(catalog.Demand([]catalog.Condition{c}), "stand "))
		}
		all = append(all, "It is read only "+strings.Join(beside, " and ")+".")
	}
	for _, q := range a.Requires {
		all = append(all, requirement(q))
	}
	if a.AliasesDeprecated {
		all = append(all, "Its other names are deprecated.")
	}
	return all
}

// change says what becomes of a change; empty where it does what was meant.
func change(o catalog.Outcome) string {
	if o == "" {
		return ""
	}
	return "A change while there is a load balancer is " + outcomes[o] + "."
}

func outcome(o catalog.Outcome, consequence string) string {
	if consequence == "" {
		return outcomes[o]
	}
	return outcomes[o] + ": " + consequence
}

func variant(a *catalog.Annotation, v *catalog.Variant) string {
	where := strings.Replace(catalog.Demand(v.If), "stand", "stands", 1)
	text := fmt.Sprintf("Where it %s, it must be %s; a bad value is %s.", where, v.Words(), outcome(v.OnInvalid, v.Consequence))
	switch {
	case v.OnChange == a.OnChange:
	case v.OnChange == "":
		text += " It may change."
	default:
		text += " " + change(v.OnChange)
	}
	return text
}

func requirement(q catalog.Requirement) string {
	subject := "It"
	if len(q.Values) > 0 {
		subject = "With " + strings.Join(q.Values, " or ") + " it"
	}
	return fmt.Sprintf("%s must %s; otherwise it is %s.", subject, q.Must(), outcomes[q.OnBreach])
}
