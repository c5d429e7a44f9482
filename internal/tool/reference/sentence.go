package reference

import (
	"fmt"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/catalog/document"
)

// outcomes describes what controllers do with mistakes.
var outcomes = map[document.Outcome]string{
	document.Refused: "refused by the controller or its cloud",
	document.Misread: "silently misread, with harm",
	document.Ignored: "silently ignored",
}

// sentences describes the effect of an invalid value, and the other keys and fields that the annotation depends on.
func sentences(a *document.Annotation) []string {
	all := []string{"An invalid value is " + outcome(a.OnInvalid, a.Consequence) + "."}
	for i := range a.Variants {
		all = append(all, variant(a, &a.Variants[i]))
	}
	if len(a.ReadIf) > 0 {
		var conditions []string
		for _, c := range a.ReadIf {
			conditions = append(conditions, with(c))
		}
		all = append(all, "It is read only "+strings.Join(conditions, " and ")+".")
	}
	for _, q := range a.Requires {
		// Two requirements may differ only in their conditions.
		if text := requirement(q); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if a.Since != "" {
		all = append(all, "Controllers before "+a.Since+" do not read it.")
	}
	if a.Until != "" {
		all = append(all, "Controllers from "+a.Until+" on do not read it.")
	}
	if a.AliasesDeprecated {
		all = append(all, "Its aliases are deprecated.")
	}
	if a.WriteDefault {
		all = append(all, "Admission writes the default into Services.")
	}
	return all
}

// change describes the effect of a change; empty if the value may change.
func change(a *document.Annotation) string {
	switch {
	case a.OnChange == "":
		return ""
	case a.Immutable:
		return "It is immutable: the value, even a default one, must not change once the Service is a load balancer."
	}
	return changed(a.OnChange)
}

func changed(o document.Outcome) string {
	if o == "" {
		return ""
	}
	return "A change while there is a load balancer is " + outcomes[o] + "."
}

func outcome(o document.Outcome, consequence string) string {
	if consequence == "" {
		return outcomes[o]
	}
	return outcomes[o] + ": " + consequence
}

func variant(a *document.Annotation, v *document.Variant) string {
	text := fmt.Sprintf("With %s, it must be %s; an invalid value is %s.",
		document.Describe(v.If, nil), v.Expected(), outcome(v.OnInvalid, v.Consequence))
	switch {
	case v.OnChange == a.OnChange:
	case v.OnChange == "":
		text += " It may change."
	default:
		text += " " + changed(v.OnChange)
	}
	return text
}

func requirement(q document.Requirement) string {
	// Other messages describe the annotation rather than the values.
	subject := "It"
	ofValues := q.Message == "" || strings.Contains(q.Message, "combined") || strings.Contains(q.Message, "replaced")
	if len(q.Values) > 0 && ofValues {
		subject = strings.Join(q.Values, " or ")
	}
	return fmt.Sprintf("%s %s; otherwise it is %s.", subject, q.Text(nil), outcomes[q.OnBreach])
}

// with describes a condition that something depends on: "with X", or "without X".
func with(c document.Condition) string {
	text := document.Describe([]document.Condition{c}, nil)
	if rest, not := strings.CutPrefix(text, "no "); not {
		return "without " + rest
	}
	return "with " + text
}
