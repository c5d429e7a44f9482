package catalog

// Type says which values a key has, in the controller's own dialect.
type Type struct {
	// Type is one of the kinds below.
	Type Kind `json:"type"`
	// Values are the words of an enum, and words allowed beside what the rule of another type says.
	Values []string `json:"values,omitempty"`
	// Fold says that the controller does not tell apart upper and lower case.
	Fold bool `json:"fold,omitempty"`
	// Trim says that the controller trims white space around the value, or around elements.
	Trim bool `json:"trim,omitempty"`
	// Empty says what the empty value is to the controller: absent, a value, or invalid. The default is invalid, for texts and
	// lists a value.
	Empty Empty `json:"empty,omitempty"`
	// Dialect is that of a bool or of a number.
	Dialect Dialect `json:"dialect,omitempty"`
	// Separator stands between the elements of a list or the entries of a map; the default is a comma.
	Separator string `json:"separator,omitempty"`
	// Assign stands between key and value of a map's entry; the default is =.
	Assign string `json:"assign,omitempty"`
	// EmptyElements says what an empty element of a list is; the default is invalid.
	EmptyElements Empty `json:"emptyElements,omitempty"`
	// Of is the type of a list's elements, or of a map's values; text if it is not given. For JSON it is that of the elements or
	// values, which is text or JSON; anything if it is not given.
	Of *Type `json:"of,omitempty"`
	// Keys is the type of a map's keys; text if it is not given.
	Keys *Type `json:"keys,omitempty"`
	// Entries are the types of the values that these keys of a map have; Of is that of all others.
	Entries map[string]*Type `json:"entries,omitempty"`
	// Escape says that a backslash takes from the next character of a map what it means.
	Escape bool `json:"escape,omitempty"`
	// Rule is in go-playground/validator's language with the rules of annotation.NewValidator. It judges the parsed value: a string,
	// an int, a float64, a []string, or a map[string]string.
	Rule string `json:"rule,omitempty"`
	// Pattern is a regular expression of the RE2 syntax that a text must match as a whole.
	Pattern string `json:"pattern,omitempty"`
	// Allowed completes "must be …"; made of the rest if it is empty. A pattern needs it.
	Allowed string `json:"allowed,omitempty"`
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
	Duration Kind = "duration" // of Go: time.ParseDuration
	List     Kind = "list"
	Map      Kind = "map"
	JSON     Kind = "json"     // its Values, if given: array, object
	Selector Kind = "selector" // a Kubernetes label selector
)

// Empty is what an empty value is.
type Empty string

// What an empty value may be.
const (
	Absent  Empty = "absent"
	Value   Empty = "value"
	Invalid Empty = "invalid"
)

// Dialect is how a controller reads a bool or a number.
type Dialect string

// The dialects.
const (
	// ParseBool is strconv.ParseBool: 1, t, T, TRUE, true, True and their opposites. The default of a bool.
	ParseBool Dialect = "parse-bool"
	// TrueFalse is exactly true or false; with Fold in any case.
	TrueFalse Dialect = "true-false"
	// OnOff is exactly on or off; with Fold in any case.
	OnOff Dialect = "on-off"
	// YesNo is exactly yes or no; with Fold in any case.
	YesNo Dialect = "yes-no"
	// YAMLBool is what YAML 1.1 calls a bool, in any case: y, yes, true, on and their opposites.
	YAMLBool Dialect = "yaml-bool"
	// Atoi is strconv.Atoi: decimal digits with an optional sign. The default of an int.
	Atoi Dialect = "atoi"
	// AnyBase is strconv.ParseInt with base 0: 0x10, 0b1, 1_000 and leading zeros for octal as well.
	AnyBase Dialect = "any-base"
)
