package annotation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The Values of a JSON type.
const (
	jsonArray  = "array"
	jsonObject = "object"
)

func (t *Type) parseJSON(text string, v *Value) error {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return fmt.Errorf("invalid JSON: %w", err)
	}
	v.JSON = value
	return t.misfit("", value)
}

// misfit says what is wrong with JSON at a path; nil if it is of the type. Go accepts null for any value, which is then an
// object without fields.
func (t *Type) misfit(path string, value any) error {
	if value == nil && t != nil && len(t.Required) > 0 {
		value = map[string]any{}
	}
	switch {
	case t == nil || value == nil:
		return nil
	case t.fits(value):
	case path == "":
		return errUnexplained
	case t.Type == Bool:
		return fmt.Errorf("%s must be true or false, without quotes", path)
	default:
		return fmt.Errorf("%s must be %s", path, t.Expected())
	}
	switch v := value.(type) {
	case []any:
		for i, element := range v {
			if err := t.Of.misfit(path+"["+strconv.Itoa(i)+"]", element); err != nil {
				return err
			}
		}
	case map[string]any:
		return t.misfitObject(path, v)
	}
	return nil
}

// fits reports whether a value itself is of the type, without what is in it.
func (t *Type) fits(value any) bool {
	if t.Type == JSON && len(t.Values) == 0 {
		return true
	}
	switch v := value.(type) {
	case string:
		return (t.Type == Text || t.Type == Enum) && t.accepts(v)
	case float64:
		return t.Type == Int && t.accepts(strconv.FormatFloat(v, 'f', -1, 64))
	case bool:
		return t.Type == Bool
	case []any:
		return t.Type == JSON && slices.Contains(t.Values, jsonArray)
	default:
		return t.Type == JSON && slices.Contains(t.Values, jsonObject)
	}
}

func (t *Type) misfitObject(path string, object map[string]any) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s "+format, append([]any{cmp.Or(path, "it")}, args...)...)
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if t.Keys != nil && !t.Keys.accepts(key) {
			return wrong("has the field %s, which must be %s", Quote(key), t.Keys.Expected())
		}
		if object[key] == nil {
			continue // as if it was not there
		}
		if err := t.field(key).misfit(within(path, key), object[key]); err != nil {
			return err
		}
	}
	word, _ := fieldOf(object, t.By).(string)
	for _, one := range slices.Concat(t.Required, t.Cases[word]) {
		if names := strings.Split(one, "|"); countSet(object, names) == 0 {
			return wrong("lacks %s", strings.Join(names, " or "))
		}
	}
	for _, one := range t.Exclusive {
		if names := strings.Split(one, "|"); countSet(object, names) > 1 {
			return wrong("must have only one of %s", strings.Join(names, " and "))
		}
	}
	return nil
}

// within returns the path of a field. Names that could be mistaken for something else are quoted.
func within(path, key string) string {
	if strings.ContainsFunc(key, func(r rune) bool { return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) || len(key) > 64 {
		key = Quote(key)
	}
	return strings.TrimPrefix(path+"."+key, ".")
}

// field returns the type of a field; nil if it can be anything. As in encoding/json, case does not matter.
func (t *Type) field(key string) *Type {
	for name, of := range t.Entries {
		if strings.EqualFold(name, key) {
			return of
		}
	}
	return t.Of
}

// fieldOf returns the value of a field; nil if there is none. Of names in several cases, it takes always the same.
func fieldOf(object map[string]any, name string) any {
	at := name
	if _, exact := object[name]; !exact {
		for key := range object {
			if strings.EqualFold(key, name) && (at == name || key < at) {
				at = key
			}
		}
	}
	return object[at]
}

// countSet counts the fields that have a value: neither null nor an empty text or list.
func countSet(object map[string]any, names []string) int {
	set := 0
	for _, name := range names {
		switch v := fieldOf(object, name).(type) {
		case nil:
		case string:
			set += min(1, len(v))
		case []any:
			set += min(1, len(v))
		default:
			set++
		}
	}
	return set
}

// UnreadField returns the path of a field of JSON that the type does not describe, so that the controller ignores it, and
// the names of those that it describes there. found is false if there is none.
func (t *Type) UnreadField(v Value) (path string, known []string, found bool) {
	return t.unread("", v.JSON)
}

func (t *Type) unread(path string, value any) (unread string, known []string, found bool) {
	if t == nil {
		return "", nil, false
	}
	switch v := value.(type) {
	case []any:
		for i, element := range v {
			if unread, known, found = t.Of.unread(path+"["+strconv.Itoa(i)+"]", element); found {
				return unread, known, true
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at, of := within(path, key), t.field(key)
			if of == nil && len(t.Entries) > 0 {
				return at, slices.Sorted(maps.Keys(t.Entries)), true
			}
			if unread, known, found = of.unread(at, v[key]); found {
				return unread, known, true
			}
		}
	}
	return "", nil, false
}
