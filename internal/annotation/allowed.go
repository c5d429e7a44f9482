package annotation

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Type names the kind of value for documentation.
func (d *Descriptor) Type() string {
	switch d.goType {
	case reflect.TypeFor[int]():
		return "int"
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[bool]():
		return "bool"
	case reflect.TypeFor[[]string]():
		return "list"
	case reflect.TypeFor[map[string]string]():
		return "tags"
	}
	if d.Words() != nil {
		return "enum"
	}
	return "string"
}

// Allowed completes "must be …".
func (d *Descriptor) Allowed() string {
	switch d.Type() {
	case "int":
		return fmt.Sprintf("an integer from %s to %s", d.param("min"), d.param("max"))
	case "duration":
		text := fmt.Sprintf("a duration from %s to %s", d.param("min"), d.param("max"))
		if d.has(tagWholeSecs) {
			text += " in whole seconds"
		}
		return text
	case "bool", "enum":
		return "one of " + strings.Join(d.Words(), ", ")
	case "tags":
		return fmt.Sprintf("at most %s tags key=value separated by commas, with keys of 1 to %d letters, digits, '.', '_', '/', '-' "+
			"that begin with a letter or digit and not with %s, and values of at most %d printable ASCII characters without ',' and '='",
			d.param("max"), longestTagKey, reservedTags, longestTag)
	case "list":
		return "a list, separated by commas and without duplicates, of " + d.element("s")
	}
	text := d.element("")
	if words := d.param(tagNot); words != "" {
		text += ", but not " + strings.Join(strings.Fields(words), " or ")
	}
	return text
}

// element describes one value of a string key, or of a list with the plural's ending.
func (d *Descriptor) element(plural string) string {
	article := "a "
	if plural != "" {
		article = ""
	}
	switch {
	case d.has(tagDNSLabel):
		return article + "DNS label" + plural + " (at most 63 of a-z, 0-9 and '-', with a letter or digit at both ends)"
	case d.has(tagDNSName):
		return article + "DNS name" + plural + " in lower case, not an IP address"
	case d.has(tagPath):
		return fmt.Sprintf("an absolute path of at most %d printable ASCII characters without space and '#'", longestPath)
	case d.has(tagCodes):
		return fmt.Sprintf("status codes or ranges low-high from %d to %d", lowestCode, highestCode)
	case d.has(tagPrefixed):
		prefix, low, high := prefixedParam(d.param(tagPrefixed))
		return fmt.Sprintf("%s followed by %d to %d of a-z, 0-9 and '-'", prefix, low, high)
	}
	panic(fmt.Sprintf("%s: nothing says in words what the rule %q allows", d.Key, d.Rule))
}

func (d *Descriptor) has(tag string) bool {
	_, found := d.lookup(tag)
	return found
}

func (d *Descriptor) param(tag string) string {
	param, _ := d.lookup(tag)
	return param
}

// lookup finds a tag of the rule and what it says behind its =.
func (d *Descriptor) lookup(tag string) (param string, found bool) {
	for part := range strings.SplitSeq(d.Rule, ",") {
		if name, param, _ := strings.Cut(part, "="); name == tag {
			return param, true
		}
	}
	return "", false
}
