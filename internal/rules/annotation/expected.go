package annotation

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Expected returns a description of the valid values that completes "must be …".
func (t *Type) Expected() string {
	if t.Allowed != "" {
		return t.Allowed
	}
	text := t.expected()
	if len(t.Values) > 0 && t.Type != Enum && t.Type != JSON {
		text += ", or " + strings.Join(t.Values, " or ")
	}
	return text
}

func (t *Type) expected() string {
	inAnyCase := ""
	if t.Fold {
		inAnyCase = " (in any case)"
	}
	switch t.Type {
	case Enum:
		return oneOf(t.Values) + inAnyCase
	case Bool:
		yes, no := t.BoolWords()
		switch t.Dialect {
		case "", ParseBool:
			return "true or false (1, t, T, TRUE, True and their opposites are accepted)"
		case YAMLBool:
			return strings.Join(yes, ", ") + ", or " + strings.Join(no, ", ") + inAnyCase
		default:
			return yes[0] + " or " + no[0] + inAnyCase
		}
	case Int:
		return "an integer" + t.limits("")
	case Float:
		return "a number" + t.limits("")
	case Duration:
		text := "a duration" + t.limits("")
		if t.has(tagWholeSeconds) {
			text += " in whole seconds"
		}
		return text
	case List:
		text := separated(t.Separator) + " list" + t.limits(" elements")
		if t.has("unique") {
			text += " without duplicates"
		}
		if element := t.restrictedElement(); element != nil {
			text += ", each element " + element.Expected()
		}
		return text
	case Map:
		return separated(t.Separator) + " list of key" + t.Assign + "value" + t.limits(" entries") + t.expectedParts()
	case JSON:
		if len(t.Values) > 0 {
			return "a JSON " + strings.Join(t.Values, " or ")
		}
		return "JSON"
	case Selector:
		return "a label selector such as app=web,tier!=cache"
	case Text:
		return t.expectedText()
	}
	return string(t.Type)
}

// restrictedElement returns the type of a list's elements, or nil if they may be any text.
func (t *Type) restrictedElement() *Type {
	if t.Of != nil && t.Of.Free() {
		return nil
	}
	return t.Of
}

func (t *Type) expectedParts() string {
	var text strings.Builder
	add := func(part string, of *Type) {
		if of != nil && !of.Free() {
			fmt.Fprintf(&text, ", each %s %s", part, of.Expected())
		}
	}
	add("key", t.Keys)
	add("value", t.Of)
	for _, key := range slices.Sorted(maps.Keys(t.Entries)) {
		fmt.Fprintf(&text, ", %s %s", key, t.Entries[key].Expected())
	}
	return text.String()
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return "one of " + strings.Join(words, ", ")
}

func separated(separator string) string {
	if word, known := map[string]string{",": "comma", ";": "semicolon", " ": "space"}[separator]; known {
		return "a " + word + "-separated"
	}
	return "a " + separator + "-separated"
}

// nouns describes the texts that the tags in rules of catalogs accept.
var nouns = map[string]string{
	"ip":               "an IP address",
	"ipv4":             "an IPv4 address",
	"ipv6":             "an IPv6 address",
	"ip|fqdn":          "an IP address or a fully qualified domain name",
	"cidr":             "a CIDR such as 10.0.0.0/8",
	"cidrv4":           "an IPv4 CIDR",
	"cidrv6":           "an IPv6 CIDR",
	"hostname_rfc1123": "a host name",
	"fqdn":             "a fully qualified domain name",
	"url":              "a URL",
	"http_url":         "an http or https URL",
	"mac":              "a hardware address such as 02:00:00:00:00:01",
	"uuid":             "a UUID",
	"uuid4":            "a UUID",
	"numeric":          "a string of digits",
	"alphanum":         "a string of letters and digits",
	"ascii":            "an ASCII string",
	"json":             "JSON",
	tagDNSName:         "a DNS name in lower case, not an IP address",
	tagDNSLabel:        "a DNS label (at most 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit)",
	tagCodes:           fmt.Sprintf("an HTTP status code or a range low-high, from %d to %d", lowestCode, highestCode),
	tagPath: fmt.Sprintf("an absolute path of at most %d printable ASCII characters without space and '#'",
		longestPath),
	tagTagKey: fmt.Sprintf("1 to %d letters, digits, '.', '_', '/' or '-', "+
		"beginning with a letter or digit and not with %s", longestTagKey, reservedTags),
	tagTagValue: fmt.Sprintf("at most %d printable ASCII characters without ',' and '='", longestTag),
}

// qualifiers describes the tags that follow the noun. %s is the parameter of the tag.
var qualifiers = map[string]string{
	"startswith":  " beginning with %s",
	"endswith":    " ending with %s",
	"contains":    " containing %s",
	"excludesall": " without any of %s",
	"lowercase":   " in lower case",
}

func (t *Type) expectedText() string {
	noun, rest := "", ""
	for name, param := range t.tags() {
		switch {
		case name == "oneof":
			noun = oneOf(strings.Fields(param))
		case name == tagNot:
			rest += ", but not " + strings.Join(strings.Fields(param), " or ")
		case name == tagPrefixed:
			prefix, low, high := prefixedParam(param)
			noun = fmt.Sprintf("%s followed by %d to %d of a-z, 0-9 and '-'", prefix, low, high)
		case nouns[name] != "":
			noun = nouns[name]
		case qualifiers[name] != "":
			qualifier := qualifiers[name]
			if strings.Contains(qualifier, "%s") {
				qualifier = fmt.Sprintf(qualifier, param)
			}
			rest += qualifier
		case isLimit(name), name == "omitempty", name == "required":
		default:
			panic(fmt.Sprintf("no description of the rule %q: set allowed in the type", t.Rule))
		}
	}
	if noun == "" {
		noun = "a string"
		if t.Empty == Invalid && t.limits("") == "" {
			noun = "a non-empty string"
		}
	}
	return noun + t.limits(" characters") + rest
}

func isLimit(tag string) bool {
	return slices.Contains([]string{"min", "gte", "max", "lte", "len"}, tag)
}

// limits describes min, max and len. unit names what they count; it is empty for limits of a number.
func (t *Type) limits(unit string) string {
	var low, high string
	for name, param := range t.tags() {
		switch name {
		case "min", "gte":
			low = param
		case "max", "lte":
			high = param
		case "len":
			return " of " + param + unit
		}
	}
	return bounds(low, high, unit)
}

func bounds(low, high, unit string) string {
	switch {
	case low != "" && high != "" && unit != "":
		return fmt.Sprintf(" of %s to %s%s", low, high, unit)
	case low != "" && high != "":
		return fmt.Sprintf(" between %s and %s", low, high)
	case low != "":
		return fmt.Sprintf(" of at least %s%s", low, unit)
	case high != "":
		return fmt.Sprintf(" of at most %s%s", high, unit)
	}
	return ""
}

// tags iterates over the tags of the rule and their parameters.
func (t *Type) tags() iter.Seq2[string, string] {
	return func(yield func(name, param string) bool) {
		for tag := range strings.SplitSeq(t.Rule, ",") {
			if name, param, _ := strings.Cut(tag, "="); name != "" && !yield(name, param) {
				return
			}
		}
	}
}

func (t *Type) has(tag string) bool {
	for name := range t.tags() {
		if name == tag {
			return true
		}
	}
	return false
}
