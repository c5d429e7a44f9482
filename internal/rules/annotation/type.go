// Package annotation defines the types of annotations and parses their values, which are strings, into typed values or
// one clear error. It uses no client, no clock and no network.
package annotation

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Type describes the values of a key, in the dialect of the controller that reads it.
type Type struct {
	// Type is one of the kinds below.
	Type Kind `json:"type"`
	// Values are the words of an enum; for another type, words that are allowed in addition to what its rule allows.
	Values []string `json:"values,omitempty"`
	// Fold is true if the controller ignores case.
	Fold bool `json:"fold,omitempty"`
	// Trim is true if the controller trims white space around the value, or around the elements of a list or map.
	Trim bool `json:"trim,omitempty"`
	// Empty is what the controller does with the empty value. The default is allowed for free text and for the parts of
	// lists and maps, and invalid for everything else.
	Empty Empty `json:"empty,omitempty"`
	// Dialect is the notation of a boolean, an integer or a duration.
	Dialect Dialect `json:"dialect,omitempty"`
	// Separator separates the elements of a list or the entries of a map; the default is a comma.
	Separator string `json:"separator,omitempty"`
	// Assign separates the key of a map's entry from its value; the default is =.
	Assign string `json:"assign,omitempty"`
	// EmptyElements is what the controller does with an empty element of a list; the default is invalid.
	EmptyElements Empty `json:"emptyElements,omitempty"`
	// Of is the type of a list's elements, or of a map's values; the default is text. For JSON it is the type of the
	// elements or values, which is text, an enum, an integer, a boolean or JSON; by default they may be anything.
	Of *Type `json:"of,omitempty"`
	// Keys is the type of the keys of a map or of a JSON object; the default is text.
	Keys *Type `json:"keys,omitempty"`
	// UniqueKeys is true if the controller refuses a map with duplicate keys.
	UniqueKeys bool `json:"uniqueKeys,omitempty"`
	// Entries holds the types of the values of specific keys of a map, or of the fields of a JSON object, whose names are
	// read in any case; Of is the type of all other values. Without Of, a controller ignores other fields.
	Entries map[string]*Type `json:"entries,omitempty"`
	// Required are the fields that a JSON object must have, neither null nor an empty text or list. Of names that are
	// separated by |, one is enough.
	Required []string `json:"required,omitempty"`
	// By is the field of a JSON object that decides what else is required, and Cases what that is by its value.
	By    string              `json:"by,omitempty"`
	Cases map[string][]string `json:"cases,omitempty"`
	// Exclusive are names of fields, separated by |, of which a JSON object must have only one.
	Exclusive []string `json:"exclusive,omitempty"`
	// Escape is true if a backslash in a map escapes the next character.
	Escape bool `json:"escape,omitempty"`
	// Rule validates the parsed value: a string, an int, a float64, a time.Duration, a []string, or a
	// map[string]string. It is written in go-playground/validator's language, with the tags of validator.go.
	Rule string `json:"rule,omitempty"`
	// Pattern is a regular expression in RE2 syntax that the whole text must match.
	Pattern string `json:"pattern,omitempty"`
	// Allowed completes "must be …"; generated from the other fields if it is empty. A pattern requires it.
	Allowed string `json:"allowed,omitempty"`

	// limit is the Rule of an integer or a duration; nil if there is none, or Complete has not been called.
	limit *limit
}

// Kind is the kind of a Type.
type Kind string

// The kinds.
const (
	Text     Kind = "text"
	Enum     Kind = "enum"
	Bool     Kind = "bool"
	Int      Kind = "int"
	Float    Kind = "float"
	Duration Kind = "duration"
	List     Kind = "list"
	Map      Kind = "map"
	JSON     Kind = "json"     // its Values, if given, are array and object
	Selector Kind = "selector" // a Kubernetes label selector
)

// Free reports whether the type accepts every text.
func (t *Type) Free() bool {
	return t.Type == Text && t.Rule == "" && t.Pattern == "" && t.Empty != Invalid
}

// Empty is what a controller does with an empty value.
type Empty string

// What a controller may do with an empty value.
const (
	// Absent: it treats the value like a missing annotation.
	Absent Empty = "absent"
	// Allowed: it treats the value like any other.
	Allowed Empty = "value"
	// Invalid: it rejects the value.
	Invalid Empty = "invalid"
)

// Dialect is the notation of a boolean, an integer or a duration.
type Dialect string

// The dialects.
const (
	// ParseBool is strconv.ParseBool: 1, t, T, TRUE, true, True and their opposites. The default of a boolean.
	ParseBool Dialect = "parse-bool"
	// TrueFalse is exactly true or false; with Fold in any case.
	TrueFalse Dialect = "true-false"
	// OnOff is exactly on or off; with Fold in any case.
	OnOff Dialect = "on-off"
	// YesNo is exactly yes or no; with Fold in any case.
	YesNo Dialect = "yes-no"
	// YAMLBool is a YAML 1.1 boolean, in any case: y, yes, true, on and their opposites.
	YAMLBool Dialect = "yaml-bool"
	// Atoi is strconv.Atoi: decimal digits with an optional sign. The default of an integer.
	Atoi Dialect = "atoi"
	// AnyBase is strconv.ParseInt with base 0: 0x10, 0b1, 1_000 and leading zeros for octal as well.
	AnyBase Dialect = "any-base"
	// Digits is 0|[1-9][0-9]*: decimal digits without sign or leading zero.
	Digits Dialect = "digits"
	// GoDuration is time.ParseDuration. The default of a duration.
	GoDuration Dialect = "go-duration"
	// OrderedUnits has the units h, m, s and ms, each at most once and in this order, each after an integer without
	// sign or leading zero: 1h30m, 1500ms, 0s.
	OrderedUnits Dialect = "ordered-units"
)

// Problems returns the mistakes in the definition of a type.
func (t *Type) Problems() []string {
	var problems []string
	add := func(wrong bool, text string) {
		if wrong {
			problems = append(problems, text)
		}
	}
	kinds := []Kind{Text, Enum, Bool, Int, Float, Duration, List, Map, JSON, Selector}
	dialects := map[Kind][]Dialect{
		Bool:     {ParseBool, TrueFalse, OnOff, YesNo, YAMLBool},
		Int:      {Atoi, AnyBase, Digits},
		Duration: {GoDuration, OrderedUnits},
	}
	empties := []Empty{"", Absent, Allowed, Invalid}
	add(!slices.Contains(kinds, t.Type), fmt.Sprintf("has an unknown type %q", t.Type))
	add(t.Type == Enum && len(t.Values) == 0, "is an enum without values")
	for _, name := range slices.Sorted(maps.Keys(t.Entries)) {
		add(t.Entries[name] == nil, fmt.Sprintf("has no type for the entry %q", name))
	}
	for _, part := range t.parts() {
		known := part == t.Keys || slices.Contains([]Kind{Text, Enum, Int, Bool, JSON}, part.Type)
		add(t.Type == JSON && !known, "is JSON of a type that cannot be checked")
	}
	fields := slices.Concat(t.Required, t.Exclusive)
	for _, word := range slices.Sorted(maps.Keys(t.Cases)) {
		fields = append(fields, t.Cases[word]...)
	}
	for _, one := range fields {
		for name := range strings.SplitSeq(one, "|") {
			add(t.Entries[name] == nil, fmt.Sprintf("requires or excludes the field %q, which is not among the entries", name))
		}
	}
	add(t.By != "" && t.Entries[t.By] == nil || (t.By == "") != (len(t.Cases) == 0), "must have cases, and the field that decides, or neither")
	add(t.Pattern != "" && t.Allowed == "", "has a pattern, which requires allowed")
	add(t.Dialect != "" && !slices.Contains(dialects[t.Type], t.Dialect),
		fmt.Sprintf("has a dialect %q of a different type", t.Dialect))
	add(!slices.Contains(empties, t.Empty) || !slices.Contains(empties, t.EmptyElements),
		"has an unknown empty or emptyElements")
	add(t.Type != Map && (t.Type != JSON && len(t.Entries) > 0 || t.Escape || t.UniqueKeys),
		"has entries, escape or uniqueKeys, but is not a map")
	add(t.Type != JSON && (len(t.Required) > 0 || t.By != "" || len(t.Exclusive) > 0), "has required, by or exclusive, but is not JSON")
	if _, err := regexp.Compile(t.Pattern); err != nil {
		add(true, err.Error())
	}
	if t.Rule != "" && len(problems) == 0 {
		problems = t.ruleProblems()
	}
	for _, part := range t.parts() {
		problems = append(problems, part.Problems()...)
	}
	return problems
}

// samples are values as rules validate them.
var samples = map[Kind]any{
	Text: "x", Int: int64(1), Float: 1.0, Duration: time.Second, List: []string{"x"}, Map: map[string]string{"x": "x"},
}

// ruleProblems returns the mistakes in the rule. The validator panics on them when it first meets them, which depends on
// the value; so they are looked for in each tag alone.
func (t *Type) ruleProblems() []string {
	sample, known := samples[t.Type]
	if !known {
		return []string{"has a rule, but is of a type that has none"}
	}
	var problems []string
	for tag := range strings.SplitSeq(strings.ReplaceAll(t.Rule, "|", ","), ",") {
		alone := &Type{Type: t.Type, Rule: tag}
		if tag == "" || panics(func() { _, _ = newLimit(alone), check(sample, tag) }) {
			problems = append(problems, fmt.Sprintf("has %q in its rule, which does not exist, has a wrong parameter or is for other types", tag))
		}
	}
	if len(problems) == 0 && panics(func() { t.Expected() }) {
		return []string{fmt.Sprintf("has the rule %q, which requires allowed", t.Rule)}
	}
	return problems
}

func panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}
