package export

import (
	"maps"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/tool/export/cel"
)

// unsupported is the reason why a check is not expressed in CEL.
type unsupported string

func (u unsupported) Error() string { return string(u) }

// typeExpression returns an expression that is true if v, an expression for a string, is a valid value of the type.
func typeExpression(t *annotation.Type, v string) (string, error) {
	v = normal(t, v)
	body, err := bodyExpression(t, v)
	if err != nil {
		return "", err
	}
	if t.Pattern != "" {
		body = cel.And(body, cel.Matches(v, t.Pattern))
	}
	if len(t.Values) > 0 && t.Type != annotation.Enum && t.Type != annotation.JSON {
		body = cel.Or(cel.In(v, t.Values), body)
	}
	switch t.Empty {
	case annotation.Absent:
		return cel.Or(v+" == ''", body), nil
	case annotation.Invalid:
		return cel.And(v+" != ''", body), nil
	case annotation.Allowed:
	}
	return body, nil
}

// normal returns an expression for the normalized value.
func normal(t *annotation.Type, v string) string {
	if t.Trim {
		v += ".trim()"
	}
	if t.Fold {
		v += ".lowerAscii()"
	}
	return v
}

// normalWords returns the words of a type as normalized values.
func normalWords(t *annotation.Type, list []string) []string {
	if !t.Fold {
		return list
	}
	var lower []string
	for _, word := range list {
		lower = append(lower, strings.ToLower(word))
	}
	return lower
}

// Patterns of numbers and durations that CEL converts without an error.
const (
	integer      = `[-+]?[0-9]{1,18}`
	plainDigits  = `0|[1-9][0-9]{0,17}`
	anyNumber    = `[-+]?([0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})([eE][-+]?[0-9]{1,2})?`
	orderedUnits = `((0|[1-9][0-9]{0,9})h)?((0|[1-9][0-9]{0,9})m)?((0|[1-9][0-9]{0,9})s)?((0|[1-9][0-9]{0,9})ms)?`
	anyDuration  = `[-+]?(0|(([0-9]{1,9}\.?[0-9]{0,9}|\.[0-9]{1,9})(ns|us|µs|μs|ms|s|m|h)){1,9})`
)

// bodyExpression validates a normalized value, apart from its pattern and special words.
func bodyExpression(t *annotation.Type, v string) (string, error) {
	switch t.Type {
	case annotation.Enum:
		return cel.In(v, normalWords(t, t.Values)), nil
	case annotation.Bool:
		yes, no := t.BoolWords()
		return cel.In(v, slices.Concat(yes, no)), nil
	case annotation.Text:
		return ruleExpression(t.Rule, v, "size("+v+")")
	case annotation.Int:
		if t.Dialect == annotation.AnyBase {
			return "", unsupported("CEL parses only decimal numbers")
		}
		if t.Dialect == annotation.Digits {
			return number(t, v, plainDigits, "int("+v+")")
		}
		return number(t, v, integer, "int("+v+")")
	case annotation.Float:
		return number(t, v, anyNumber, "double("+v+")")
	case annotation.Duration:
		rule, err := durationRule(t.Rule, "duration("+v+")")
		if t.Dialect == annotation.OrderedUnits {
			return cel.And(cel.Matches(v, orderedUnits), rule), err
		}
		return cel.And(cel.Matches(v, anyDuration), rule), err
	case annotation.List:
		return listExpression(t, v)
	case annotation.Map:
		return mapExpression(t, v)
	case annotation.JSON:
		return "", unsupported("CEL cannot parse JSON")
	case annotation.Selector:
		return "", unsupported("CEL cannot parse label selectors")
	}
	return "", unsupported("there is no expression for the type " + string(t.Type))
}

func number(t *annotation.Type, v, pattern, parsed string) (string, error) {
	rule, err := ruleExpression(t.Rule, v, parsed)
	return cel.And(cel.Matches(v, pattern), rule), err
}

// listExpression validates every element, then the list as a whole.
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
		each = cel.And(each, of)
	}
	rule, err := listRule(t.Rule, elements)
	return cel.And(elements+".all(e, "+each+")", rule), err
}

// split returns an expression for the parts of a value; an empty value has none.
func split(t *annotation.Type, v string) string {
	return "(" + v + " == '' ? [] : " + v + ".split(" + cel.Quote(t.Separator) + "))"
}

// element returns an expression for one part of a value, trimmed if the type is.
func element(t *annotation.Type, v string) string {
	if t.Trim {
		return v + ".trim()"
	}
	return v
}

func mapExpression(t *annotation.Type, v string) (string, error) {
	if t.Escape || t.UniqueKeys {
		return "", unsupported("CEL cannot parse escapes or compare the keys of a map")
	}
	entries := split(t, v)
	if t.EmptyElements == annotation.Absent {
		entries += ".filter(e, " + element(t, "e") + " != '')"
	}
	assign := cel.Quote(t.Assign)
	part := func(at string) string { return element(t, "e.split("+assign+", 2)["+at+"]") }
	each := "e.contains(" + assign + ")"
	if t.Keys != nil {
		key, err := typeExpression(t.Keys, part("0"))
		if err != nil {
			return "", err
		}
		each = cel.And(each, key)
	}
	value, err := entryExpression(t, part("0"), part("1"))
	if err != nil {
		return "", err
	}
	rule, err := listRule(t.Rule, entries)
	return cel.And(entries+".all(e, "+cel.And(each, value)+")", rule), err
}

// entryExpression validates the value of an entry of a map by its key.
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
		expression = "(" + key + " == " + cel.Quote(name) + " ? (" + one + ") : " + expression + ")"
	}
	return expression, nil
}
