package export

import (
	"maps"
	"slices"
	"strings"

	"quaymaster.dev/internal/annotation"
)

// unsayable is why something is not said in CEL.
type unsayable string

func (u unsayable) Error() string { return string(u) }

// typeExpression is true for the values of v, a CEL expression of a string, that the type allows.
func typeExpression(t *annotation.Type, v string) (string, error) {
	v = normal(t, v)
	body, err := bodyExpression(t, v)
	if err != nil {
		return "", err
	}
	if t.Pattern != "" {
		body = and(body, matches(v, t.Pattern))
	}
	if len(t.Values) > 0 && t.Type != annotation.Enum && t.Type != annotation.JSON {
		body = or(in(v, t.Values), body)
	}
	switch t.Empty {
	case annotation.Absent:
		return or(v+" == ''", body), nil
	case annotation.Invalid:
		return and(v+" != ''", body), nil
	case annotation.Allowed:
	}
	return body, nil
}

// normal is the value as the controller compares it.
func normal(t *annotation.Type, v string) string {
	if t.Trim {
		v += ".trim()"
	}
	if t.Fold {
		v += ".lowerAscii()"
	}
	return v
}

// words are those of a type, as normal values.
func words(t *annotation.Type, list []string) []string {
	if !t.Fold {
		return list
	}
	var lower []string
	for _, word := range list {
		lower = append(lower, strings.ToLower(word))
	}
	return lower
}

// numbers that CEL reads without an error.
const (
	wholeNumber  = `[-+]?[0-9]{1,18}`
	plainDigits  = `0|[1-9][0-9]{0,17}`
	anyNumber    = `[-+]?([0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})([eE][-+]?[0-9]{1,2})?`
	orderedUnits = `((0|[1-9][0-9]{0,9})h)?((0|[1-9][0-9]{0,9})m)?((0|[1-9][0-9]{0,9})s)?((0|[1-9][0-9]{0,9})ms)?`
	anyDuration  = `[-+]?(0|(([0-9]{1,9}\.?[0-9]{0,9}|\.[0-9]{1,9})(ns|us|µs|μs|ms|s|m|h)){1,9})`
)

func bodyExpression(t *annotation.Type, v string) (string, error) {
	switch t.Type {
	case annotation.Enum:
		return in(v, words(t, t.Values)), nil
	case annotation.Bool:
		yes, no := t.BoolWords()
		return in(v, slices.Concat(yes, no)), nil
	case annotation.Text:
		return ruleExpression(t.Rule, v, "size("+v+")")
	case annotation.Int:
		if t.Dialect == annotation.AnyBase {
			return "", unsayable("CEL reads decimal numbers alone")
		}
		if t.Dialect == annotation.Digits {
			return number(t, v, plainDigits, "int("+v+")")
		}
		return number(t, v, wholeNumber, "int("+v+")")
	case annotation.Float:
		return number(t, v, anyNumber, "double("+v+")")
	case annotation.Duration:
		rule, err := durationRule(t.Rule, "duration("+v+")")
		if t.Dialect == annotation.OrderedUnits {
			return and(matches(v, orderedUnits), rule), err
		}
		return and(matches(v, anyDuration), rule), err
	case annotation.List:
		return listExpression(t, v)
	case annotation.Map:
		return mapExpression(t, v)
	case annotation.JSON:
		return "", unsayable("CEL does not read JSON")
	case annotation.Selector:
		return "", unsayable("CEL does not read label selectors")
	}
	return "", unsayable("there is no CEL for the type " + string(t.Type))
}

func number(t *annotation.Type, v, pattern, parsed string) (string, error) {
	rule, err := ruleExpression(t.Rule, v, parsed)
	return and(matches(v, pattern), rule), err
}

// listExpression validates every element, and then their number.
func listExpression(t *annotation.Type, v string) (string, error) {
	elements := split(t, v)
	e := element(t, "e")
	if t.EmptyElements == annotation.Absent {
		elements += ".filter(e, " + e + " != '')"
	}
	each := "true"
	if t.EmptyElements != annotation.Allowed {
		each = e + " != ''"
	}
	if t.Of != nil {
		of, err := typeExpression(t.Of, e)
		if err != nil {
			return "", err
		}
		each = and(each, of)
	}
	rule, err := listRule(t.Rule, elements)
	return and(elements+".all(e, "+each+")", rule), err
}

// split are the parts of a value; the empty value has none.
func split(t *annotation.Type, v string) string {
	return "(" + v + " == '' ? [] : " + v + ".split(" + quote(t.Separator) + "))"
}

// element is one part of a value.
func element(t *annotation.Type, v string) string {
	if t.Trim {
		return v + ".trim()"
	}
	return v
}

func mapExpression(t *annotation.Type, v string) (string, error) {
	if t.Escape || t.UniqueKeys {
		return "", unsayable("CEL does not undo escapes or compare the keys of a map")
	}
	entries := split(t, v)
	if t.EmptyElements == annotation.Absent {
		entries += ".filter(e, " + element(t, "e") + " != '')"
	}
	assign := quote(t.Assign)
	part := func(at string) string { return element(t, "e.split("+assign+", 2)["+at+"]") }
	each := "e.contains(" + assign + ")"
	if t.Keys != nil {
		key, err := typeExpression(t.Keys, part("0"))
		if err != nil {
			return "", err
		}
		each = and(each, key)
	}
	value, err := entryExpression(t, part("0"), part("1"))
	if err != nil {
		return "", err
	}
	rule, err := listRule(t.Rule, entries)
	return and(entries+".all(e, "+and(each, value)+")", rule), err
}

// entryExpression validates the value of a map's entry by its key.
func entryExpression(t *annotation.Type, key, value string) (string, error) {
	expression := "true"
	if t.Of != nil {
		of, err := typeExpression(t.Of, value)
		if err != nil {
			return "", err
		}
		expression = "(" + of + ")"
	}
	for _, name := range slices.Sorted(maps.Keys(t.Entries)) {
		one, err := typeExpression(t.Entries[name], value)
		if err != nil {
			return "", err
		}
		expression = "(" + key + " == " + quote(name) + " ? (" + one + ") : " + expression + ")"
	}
	return expression, nil
}
