package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Words completes "must be …".
func (t *Type) Words() string {
	if t.Allowed != "" {
		return t.Allowed
	}
	text := t.words()
	if len(t.Values) > 0 && t.Type != Enum && t.Type != JSON {
		text += ", or " + strings.Join(t.Values, " or ")
	}
	return text
}

func (t *Type) words() string {
	switch t.Type {
	case Enum:
		return "one of " + strings.Join(t.Values, ", ") + t.inAnyCase()
	case Bool:
		yes, no := t.BoolWords()
		if t.dialect() == ParseBool {
			return "true or false (1, t, T, TRUE, True and their opposites are read alike)"
		}
		return "one of " + strings.Join(slices.Concat(yes, no), ", ") + t.inAnyCase()
	case Int:
		return "a whole number" + t.ruleWords("")
	case Float:
		return "a number" + t.ruleWords("")
	case Duration:
		return "a duration with units such as 15s" + t.ruleWords("")
	case List:
		of := "values"
		if t.Of != nil {
			of = "values each of which is " + t.Of.Words()
		}
		return fmt.Sprintf("a list, separated by %s, of %s", separatorWord(t.Separator), of+t.ruleWords(" elements"))
	case Map:
		return fmt.Sprintf("a list, separated by %s, of key%svalue", separatorWord(t.Separator), t.Assign) + t.partWords() + t.ruleWords(" entries")
	case JSON:
		if len(t.Values) > 0 {
			return "a JSON " + strings.Join(t.Values, " or ")
		}
		return "JSON"
	case Selector:
		return "a label selector such as app=web,tier!=cache"
	case Text:
		words := t.ruleWords(" characters")
		if is, ok := strings.CutPrefix(words, " that is "); ok {
			return is
		}
		if words != "" {
			return "a text" + words
		}
		return "a text that is not empty"
	}
	return string(t.Type)
}

func (t *Type) inAnyCase() string {
	if t.Fold {
		return " (in any case)"
	}
	return ""
}

func (t *Type) partWords() string {
	var text strings.Builder
	say := func(part string, of *Type) {
		if of != nil {
			fmt.Fprintf(&text, ", where %s is %s", part, of.Words())
		}
	}
	say("each key", t.Keys)
	say("each value", t.Of)
	for _, key := range slices.Sorted(maps.Keys(t.Entries)) {
		say(key, t.Entries[key])
	}
	return text.String()
}

func separatorWord(s string) string {
	switch s {
	case ",":
		return "commas"
	case ";":
		return "semicolons"
	case " ":
		return "spaces"
	}
	return s
}

// phrases say what the tags of go-playground/validator mean that catalogs use. %s is what stands behind =.
var phrases = map[string]string{
	"ip": "that is an IP address", "ipv4": "that is an IPv4 address", "ipv6": "that is an IPv6 address",
	"cidr": "that is a CIDR such as 10.0.0.0/8", "cidrv4": "that is an IPv4 CIDR", "cidrv6": "that is an IPv6 CIDR",
	"hostname_rfc1123": "that is a host name", "fqdn": "that is a fully qualified domain name", "url": "that is a URL",
	"http_url": "that is an http or https URL", "uuid": "that is a UUID", "uuid4": "that is a UUID",
	"startswith": "that begins with %s", "endswith": "that ends with %s", "contains": "that contains %s",
	"excludesall": "without any of %s", "numeric": "of digits", "alphanum": "of letters and digits", "ascii": "of ASCII characters",
	"unique": "without duplicates", "dnslabel": "that is a DNS label", "dnsname": "that is a DNS name in lower case",
	"urlpath": "that is an absolute path", "oneof": "that is one of %s", "lowercase": "in lower case", "json": "that is JSON",
}

// ruleWords say what the rule allows, with the unit that min and max count.
func (t *Type) ruleWords(unit string) string {
	var text, low, high string
	for tag := range strings.SplitSeq(t.Rule, ",") {
		name, param, _ := strings.Cut(tag, "=")
		switch name {
		case "", "omitempty", "required":
		case "min", "gte":
			low = param
		case "max", "lte":
			high = param
		case "len":
			text += fmt.Sprintf(" of %s%s", param, unit)
		default:
			phrase, known := phrases[name]
			if !known {
				panic(fmt.Sprintf("nothing says in words what the rule %q allows: give the type an allowed text", t.Rule))
			}
			if strings.Contains(phrase, "%s") {
				phrase = fmt.Sprintf(phrase, strings.ReplaceAll(param, " ", ", "))
			}
			text += " " + phrase
		}
	}
	switch {
	case low != "" && high != "" && unit != "":
		text = fmt.Sprintf(" of %s to %s%s", low, high, unit) + text
	case low != "" && high != "":
		text = fmt.Sprintf(" from %s to %s", low, high) + text
	case low != "":
		text = fmt.Sprintf(" of at least %s%s", low, unit) + text
	case high != "":
		text = fmt.Sprintf(" of at most %s%s", high, unit) + text
	}
	return text
}
