package annotation

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-playground/validator/v10"
	"k8s.io/apimachinery/pkg/labels"

	"quaymaster.dev/internal/visible"
)

// Value is the value of an annotation as the controller parses it.
type Value struct {
	// Text is the normalized text: trimmed, in lower case if the controller ignores case, true or false for any
	// boolean.
	Text string
	// List holds the elements of a list, the sorted keys of a map, and the Text of any other type.
	List []string
	// Map holds the entries of a map.
	Map map[string]string
	// JSON is decoded JSON: nil, or a value as encoding/json decodes it into an interface.
	JSON any
	// Number is the value of an int or float, and the seconds of a duration.
	Number float64
	// Absent is true if the controller treats the value like a missing annotation.
	Absent bool
}

// Equal reports whether two values mean the same to the controller, even if they are written differently.
func (v Value) Equal(other Value) bool {
	return v.Absent == other.Absent && slices.Equal(v.List, other.List) && maps.Equal(v.Map, other.Map)
}

// Duration returns the value of a duration, or the longest duration if the value does not fit.
func (v Value) Duration() time.Duration {
	if v.Number >= time.Duration(math.MaxInt64).Seconds() {
		return math.MaxInt64
	}
	return time.Duration(math.Round(v.Number * float64(time.Second)))
}

var (
	validate = sync.OnceValue(newValidator)
	patterns sync.Map // of *regexp.Regexp by expression
	// bools holds the words of each dialect for true and for false.
	bools = map[Dialect][2][]string{
		ParseBool: {{"1", "t", "T", "TRUE", "true", "True"}, {"0", "f", "F", "FALSE", "false", "False"}},
		TrueFalse: {{"true"}, {"false"}},
		OnOff:     {{"on"}, {"off"}},
		YesNo:     {{"yes"}, {"no"}},
		YAMLBool:  {{"y", "yes", "true", "on"}, {"n", "no", "false", "off"}},
	}
	// errUnexplained has no text: "must be …" with Expected explains the problem.
	errUnexplained = errors.New("")
)

// Complete fills in the defaults of a type. empty is the default of Empty, if it is set.
func (t *Type) Complete(empty Empty) {
	freeText := t.Type == Text && t.Rule == "" && t.Pattern == ""
	switch {
	case t.Empty != "":
	case empty != "":
		t.Empty = empty
	case freeText:
		t.Empty = Allowed
	default:
		t.Empty = Invalid
	}
	if t.Separator == "" {
		t.Separator = ","
	}
	if t.Assign == "" {
		t.Assign = "="
	}
	if t.Dialect == YAMLBool {
		t.Fold = true
	}
	t.limit = newLimit(t)
	for _, part := range t.parts() {
		part.Complete(Allowed)
	}
}

// parts returns the types of the parts of a list, a map or JSON.
func (t *Type) parts() []*Type {
	parts := slices.AppendSeq([]*Type{t.Of, t.Keys}, maps.Values(t.Entries))
	return slices.DeleteFunc(parts, func(part *Type) bool { return part == nil })
}

// Parse parses a value as the controller does. The text of the error, which may be empty, follows "must be " and
// Expected.
func (t *Type) Parse(raw string) (Value, error) { return t.ParseWith(raw, nil) }

// ParseWith is like Parse, but a List with one element is appended to list, so that the caller can provide the memory
// for many values at once.
func (t *Type) ParseWith(raw string, list []string) (Value, error) {
	text := raw
	if t.Trim && !t.Escape { // with escapes, only the entries are trimmed: white space is an entry without a key
		text = strings.TrimSpace(text)
	}
	if text == "" {
		switch t.Empty {
		case Absent:
			return Value{Absent: true}, nil
		case Invalid:
			return Value{}, errUnexplained
		case Allowed:
		}
	}
	if t.Fold {
		text = strings.ToLower(text)
	}
	v := Value{Text: text}
	if t.Type != Enum && t.Type != JSON && slices.Contains(t.Values, text) {
		list = append(list, text)
		v.List = list
		return v, nil
	}
	err := t.parse(text, &v)
	if err == nil && t.Pattern != "" && !t.matches(text) {
		err = errUnexplained
	}
	if v.List == nil && t.Type != List && t.Type != Map {
		list = append(list, v.Text)
		v.List = list
	}
	return v, err
}

// parse parses a text that is not empty, or that the type allows to be empty.
func (t *Type) parse(text string, v *Value) (err error) {
	switch t.Type {
	case Enum:
		if !slices.ContainsFunc(t.Values, func(word string) bool { return t.same(word, text) }) {
			return errUnexplained
		}
		return nil
	case Bool:
		yes, no := t.BoolWords()
		switch {
		case slices.Contains(yes, text):
			v.Text = "true"
		case slices.Contains(no, text):
			v.Text = "false"
		default:
			return errUnexplained
		}
		return nil
	case Text:
		return t.check(text)
	case Int:
		return t.parseInt(text, v)
	case Float:
		if v.Number, err = strconv.ParseFloat(text, 64); err != nil {
			return errUnexplained
		}
		return t.check(v.Number)
	case Duration:
		return t.parseDuration(text, v)
	case List:
		return t.parseList(text, v)
	case Map:
		return t.parseMap(text, v)
	case JSON:
		return t.parseJSON(text, v)
	case Selector:
		if _, err := labels.Parse(text); err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "unable to parse requirement: "))
		}
		return nil
	}
	panic(fmt.Sprintf("unknown type %q", t.Type))
}

// BoolWords returns the words for true and for false in the type's dialect.
func (t *Type) BoolWords() (yes, no []string) {
	dialect := t.Dialect
	if dialect == "" {
		dialect = ParseBool
	}
	return bools[dialect][0], bools[dialect][1]
}

func (t *Type) same(word, text string) bool {
	return word == text || t.Fold && strings.EqualFold(word, text)
}

func (t *Type) parseInt(text string, v *Value) error {
	base := 10
	switch t.Dialect {
	case AnyBase:
		base = 0
	case Digits:
		if !plainDigits(text) {
			return errUnexplained
		}
	default: // Atoi
	}
	n, err := strconv.ParseInt(text, base, 64)
	if err != nil && !(t.Dialect == Digits && errors.Is(err, strconv.ErrRange)) {
		return errUnexplained
	}
	if v.Text, v.Number = text, float64(n); t.Dialect != Digits || err != nil {
		v.Text = strconv.FormatInt(n, 10)
	}
	return checkNumber(t, n)
}

// plainDigits reports whether a text is 0|[1-9][0-9]*.
func plainDigits(text string) bool {
	return strings.Trim(text, "0123456789") == "" && (text == "0" || !strings.HasPrefix(text, "0"))
}

func (t *Type) parseDuration(text string, v *Value) error {
	parse := time.ParseDuration
	if t.Dialect == OrderedUnits {
		parse = parseOrderedUnits
	}
	d, err := parse(text)
	if err != nil {
		return errors.New("every number needs a unit, such as s")
	}
	v.Text, v.Number = text, d.Seconds()
	if t.Dialect == OrderedUnits && d.String() != text { // most are written as String writes them, and cost no memory
		v.Text = d.String()
	}
	return checkNumber(t, d)
}

// parseOrderedUnits parses durations such as 1h30m or 1500ms, without sign, fraction and leading zeros. A duration that
// does not fit becomes the longest one.
func parseOrderedUnits(text string) (time.Duration, error) {
	if text == "" {
		return 0, errUnexplained
	}
	units := []string{"h", "m", "s", "ms"}
	for rest := text; rest != ""; {
		number := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		rest = rest[len(number):]
		unit := rest[:len(rest)-len(strings.TrimLeft(rest, "hms"))]
		rest = rest[len(unit):]
		at := slices.Index(units, unit)
		if at < 0 || number == "" || !plainDigits(number) {
			return 0, errUnexplained
		}
		units = units[at+1:]
	}
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	// It is too long for a time.Duration, and for any range.
	return math.MaxInt64, nil
}

func (t *Type) parseList(text string, v *Value) error {
	v.List = []string{}
	if text != "" {
		for i, element := range strings.Split(text, t.Separator) {
			if t.Trim {
				element = strings.TrimSpace(element)
			}
			if element == "" && t.EmptyElements == Absent {
				continue
			}
			if element == "" && t.EmptyElements != Allowed {
				return fmt.Errorf("element %d is empty", i+1)
			}
			normal, err := t.Of.parseElement(element)
			if err != nil {
				return fmt.Errorf("invalid element %s", Quote(element))
			}
			v.List = append(v.List, normal)
		}
	}
	v.Text = strings.Join(v.List, t.Separator)
	return t.check(v.List)
}

func (t *Type) parseMap(text string, v *Value) error {
	v.Map = map[string]string{}
	if text != "" {
		for i, entry := range t.split(text) {
			if t.Trim {
				entry = strings.TrimSpace(entry)
			}
			if entry == "" && t.EmptyElements == Absent {
				continue
			}
			key, value, found := strings.Cut(entry, t.Assign)
			if !found {
				return fmt.Errorf("entry %d, %s, has no %q", i+1, Quote(entry), t.Assign)
			}
			if t.Trim {
				key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			}
			normal, err := t.Keys.parseElement(key)
			if err != nil {
				return fmt.Errorf("invalid key %s", Quote(key))
			}
			if _, twice := v.Map[normal]; twice && t.UniqueKeys {
				return fmt.Errorf("duplicate key %s", Quote(key))
			}
			of, known := t.Entries[normal]
			if !known {
				of = t.Of
			}
			if v.Map[normal], err = of.parseElement(value); err != nil {
				return fmt.Errorf("invalid value %s of %s", Quote(value), Quote(key))
			}
		}
	}
	v.List = slices.Sorted(maps.Keys(v.Map))
	return t.check(v.Map)
}

// split splits a map into its entries. A backslash makes the next character part of the entry, even a separator; one at
// the end is part of the last entry, too, as the AWS Load Balancer Controller reads it.
func (t *Type) split(text string) []string {
	if !t.Escape {
		return strings.Split(text, t.Separator)
	}
	var entries []string
	var entry strings.Builder
	for text != "" {
		rest, cut := strings.CutPrefix(text, t.Separator)
		switch {
		case cut && strings.TrimSpace(rest) != "":
			entries = append(entries, entry.String())
			entry.Reset()
			text = rest
			continue
		case text[0] == '\\' && len(text) > 1:
			text = text[1:]
		}
		entry.WriteByte(text[0])
		text = text[1:]
	}
	return append(entries, entry.String())
}

// parseElement parses a part of a value. Without a type, it accepts anything.
func (t *Type) parseElement(raw string) (string, error) {
	if t == nil {
		return raw, nil
	}
	var buffer [1]string // the list is not used
	v, err := t.ParseWith(raw, buffer[:0])
	return v.Text, err
}

func (t *Type) accepts(text string) bool {
	_, err := t.Parse(text)
	return err == nil
}

// checkNumber validates an integer, or a duration in nanoseconds, by the rule.
func checkNumber[Number int64 | time.Duration](t *Type, n Number) error {
	switch l := t.limit; {
	case t.Rule == "":
		return nil
	case l == nil:
		return t.check(n)
	case int64(n) < l.least || int64(n) > l.most:
		return errUnexplained
	case l.rest == "":
		return nil
	default:
		return check(n, l.rest)
	}
}

// check validates a parsed value by the rule. The error names the invalid element of a list or map.
func (t *Type) check(parsed any) error {
	if t.Rule == "" {
		return nil
	}
	return check(parsed, t.Rule)
}

// check applies a rule in go-playground/validator's language, with the project's own tags, to a parsed value.
func check(parsed any, rule string) error {
	var broken validator.ValidationErrors
	if err := validate().Var(parsed, rule); errors.As(err, &broken) {
		if strings.HasSuffix(broken[0].Field(), "]") {
			return fmt.Errorf("invalid element %s", Quote(fmt.Sprint(broken[0].Value())))
		}
		return errUnexplained
	} else if err != nil {
		return err
	}
	return nil
}

func (t *Type) matches(text string) bool {
	compiled, known := patterns.Load(t.Pattern)
	if !known {
		compiled, _ = patterns.LoadOrStore(t.Pattern, regexp.MustCompile("^(?:"+t.Pattern+")$"))
	}
	return compiled.(*regexp.Regexp).MatchString(text) //nolint:forcetypeassert // nothing else is in the map
}

// Quote quotes a piece of what the user wrote, cut to fit into a message.
func Quote(s string) string {
	return strconv.Quote(visible.Shorten(s, 64))
}
