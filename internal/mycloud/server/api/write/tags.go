package write

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

const (
	tagsMax     = 64
	tagKeyMax   = 63
	tagValueMax = 255
)

// ValidateTags returns the problems of the tags of a body.
func ValidateTags(tags map[string]string) []cloudv1.ProblemField {
	var all []cloudv1.ProblemField
	add := func(key, format string, args ...any) {
		all = append(all, cloudv1.ProblemField{
			Pointer: "/tags" + key, Code: cloudv1.CodeInvalid, Detail: fmt.Sprintf(format, args...),
		})
	}
	if len(tags) > tagsMax {
		add("", "must have at most %d tags, not %d", tagsMax, len(tags))
	}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		v, at := tags[k], "/"+escaped(k)
		if k == "" || len(k) > tagKeyMax || strings.Trim(k, tagKeyChars) != "" || strings.ContainsAny(k[:1], "._/-") {
			add(at, "key must be 1 to %d letters, digits, '.', '_', '/' or '-', beginning with a letter or digit", tagKeyMax)
		}
		plain := func(r rune) bool { return r < ' ' || r > '~' || r == ',' || r == '=' }
		if len(v) > tagValueMax || strings.ContainsFunc(v, plain) {
			add(at, "value must be at most %d printable ASCII characters except ',' and '='", tagValueMax)
		}
	}
	return all
}

const tagKeyChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-"

// escaped returns a key as a part of a JSON pointer.
func escaped(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
