package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"quaymaster.dev/internal/annotation"
)

// Parsed is a value that its type allows.
type Parsed struct {
	// Text is the normal form: trimmed, in lower case where the controller folds, and true or false for any bool.
	Text string
	// List are the elements of a list, or the keys of a map in order; one element for everything else.
	List []string
	// Map are the entries of a map.
	Map map[string]string
	// Number is that of an int or float, and the seconds of a duration.
	Number float64
	// Absent says that the value is the same as none to the controller.
	Absent bool
}

var (
	validate = sync.OnceValue(annotation.NewValidator)
	patterns sync.Map // of *regexp.Regexp by expression
	// bools are the words of each dialect, true ones and false ones.
	bools = map[Dialect][2][]string{
		ParseBool: {{"1", "t", "T", "TRUE", "true", "True"}, {"0", "f", "F", "FALSE", "false", "False"}},
		TrueFalse: {{"true"}, {"false"}},
		OnOff:     {{"on"}, {"off"}},
		YesNo:     {{"yes"}, {"no"}},
		YAMLBool:  {{"y", "yes", "true", "on"}, {"n", "no", "false", "off"}},
	}
)

// inherit completes what an annotation says of its type.
func (t *Type) inherit(empty Empty) {
	freeText := t.Type == Text && t.Rule == "" && t.Pattern == ""
	switch {
	case t.Empty != "":
	case empty != "":
		t.Empty = empty
	case freeText:
		t.Empty = Value
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
	for _, inner := range t.parts() {
		inner.inherit(Value)
	}
}

// parts are the types of the parts of a list or map.
func (t *Type) parts() []*Type {
	parts := slices.Collect(maps.Values(t.Entries))
	for _, inner := range []*Type{t.Of, t.Keys} {
		if inner != nil {
			parts = append(parts, inner)
		}
	}
	return parts
}

// Parse reads a value as the controller does. The error completes a sentence that begins with what Words returns.
func (t *Type) Parse(raw string) (Parsed, error) {
	text := raw
	if t.Trim {
		text = strings.TrimSpace(text)
	}
	if text == "" {
		switch t.Empty {
		case Absent:
			return Parsed{Absent: true}, nil
		case Invalid:
			return Parsed{}, errors.New("it is empty")
		case Value:
		}
	}
	if t.Fold {
		text = strings.ToLower(text)
	}
	p := Parsed{Text: text, List: []string{text}}
	if t.Type != Enum && t.Type != JSON && slices.Contains(t.Values, text) {
		return p, nil
	}
	err := t.parse(text, &p)
	if err == nil && t.Pattern != "" && !t.matches(text) {
		err = errors.New("")
	}
	return p, err
}

// parse reads a value that is not empty.
func (t *Type) parse(text string, p *Parsed) (err error) {
	switch t.Type {
	case Enum:
		if !slices.ContainsFunc(t.Values, func(word string) bool { return t.same(word, text) }) {
			return errors.New("")
		}
		return nil
	case Bool:
		yes, no := t.BoolWords()
		switch {
		case slices.Contains(yes, text):
			p.Text = "true"
		case slices.Contains(no, text):
			p.Text = "false"
		default:
			return errors.New("")
		}
		p.List = []string{p.Text}
		return nil
	case Text:
		return t.check(text)
	case Int:
		return t.parseInt(text, p)
	case Float:
		if p.Number, err = strconv.ParseFloat(text, 64); err != nil {
			return errors.New("it is no number")
		}
		return t.check(p.Number)
	case Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("every number needs a unit, such as s")
		}
		p.Number = d.Seconds()
		return t.check(d)
	case List:
		return t.parseList(text, p)
	case Map:
		return t.parseMap(text, p)
	case JSON:
		return t.parseJSON(text)
	case Selector:
		if _, err := labels.Parse(text); err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "unable to parse requirement: "))
		}
		return nil
	}
	panic(fmt.Sprintf("%q is no type", t.Type))
}

func (t *Type) dialect() Dialect {
	if t.Dialect != "" {
		return t.Dialect
	}
	if t.Type == Bool {
		return ParseBool
	}
	return Atoi
}

// BoolWords are the words that a bool has for true and for false.
func (t *Type) BoolWords() (yes, no []string) {
	words := bools[t.dialect()]
	return words[0], words[1]
}

func (t *Type) same(word, text string) bool {
	return word == text || t.Fold && strings.EqualFold(word, text)
}

func (t *Type) parseInt(text string, p *Parsed) error {
	base := 10
	if t.dialect() == AnyBase {
		base = 0
	}
	n, err := strconv.ParseInt(text, base, 64)
	if errors.Is(err, strconv.ErrRange) {
		return errors.New("it is too great")
	}
	if err != nil {
		return errors.New("it is no whole number")
	}
	p.Text, p.Number = strconv.FormatInt(n, 10), float64(n)
	p.List = []string{p.Text}
	return t.check(int(n))
}

func (t *Type) parseList(text string, p *Parsed) error {
	p.List = nil
	if text != "" {
		for i, element := range strings.Split(text, t.Separator) {
			if t.Trim {
				element = strings.TrimSpace(element)
			}
			if element == "" && t.EmptyElements == Absent {
				continue
			}
			if element == "" && t.EmptyElements != Value {
				return fmt.Errorf("element %d is empty", i+1)
			}
			normal, err := t.Of.element(element)
			if err != nil {
				return err
			}
			p.List = append(p.List, normal)
		}
	}
	p.Text = strings.Join(p.List, t.Separator)
	return t.check(p.List)
}

func (t *Type) parseMap(text string, p *Parsed) error {
	p.Map, p.List = map[string]string{}, nil
	if text != "" {
		for i, one := range t.entries(text) {
			if t.Trim {
				one = strings.TrimSpace(one)
			}
			if one == "" && t.EmptyElements == Absent {
				continue
			}
			key, value, found := strings.Cut(one, t.Assign)
			if !found {
				return fmt.Errorf("entry %d, %s, lacks a %s", i+1, quote(one), t.Assign)
			}
			if t.Trim {
				key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			}
			key, err := t.Keys.element(key)
			if err != nil {
				return err
			}
			of, known := t.Entries[key]
			if !known {
				of = t.Of
			}
			if p.Map[key], err = of.element(value); err != nil {
				return fmt.Errorf("the value of %s, %w", key, err)
			}
		}
	}
	p.List = slices.Sorted(maps.Keys(p.Map))
	return t.check(p.Map)
}

// entries splits a map. What a backslash stands before belongs to the entry, whatever it is.
func (t *Type) entries(text string) []string {
	if !t.Escape {
		return strings.Split(text, t.Separator)
	}
	var all []string
	var one strings.Builder
	for text != "" {
		rest, cut := strings.CutPrefix(text, t.Separator)
		switch {
		case cut:
			all = append(all, one.String())
			one.Reset()
			text = rest
			continue
		case text[0] == '\\' && len(text) > 1:
			text = text[1:]
		}
		one.WriteByte(text[0])
		text = text[1:]
	}
	return append(all, one.String())
}

// element reads a part of a value; without a type it may be anything.
func (t *Type) element(raw string) (string, error) {
	if t == nil {
		return raw, nil
	}
	p, err := t.Parse(raw)
	if err != nil {
		return "", fmt.Errorf("%s is not", quote(raw))
	}
	return p.Text, nil
}

func (t *Type) parseJSON(text string) error {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return fmt.Errorf("it is no JSON: %w", err)
	}
	if !t.fits(value) {
		return errors.New("")
	}
	return nil
}

// fits tells whether JSON is of the type. Go takes null for any value.
func (t *Type) fits(value any) bool {
	if t == nil || value == nil {
		return true
	}
	if t.Type == Text {
		_, isText := value.(string)
		return isText
	}
	array, isArray := value.([]any)
	object, isObject := value.(map[string]any)
	switch {
	case len(t.Values) == 0:
	case isArray && slices.Contains(t.Values, jsonArray), isObject && slices.Contains(t.Values, jsonObject):
	default:
		return false
	}
	misfit := func(inner any) bool { return !t.Of.fits(inner) }
	return !slices.ContainsFunc(array, misfit) && !slices.ContainsFunc(slices.Collect(maps.Values(object)), misfit)
}

// What a JSON value may have to be, among the Values of its type.
const (
	jsonArray  = "array"
	jsonObject = "object"
)

// check applies the rule.
func (t *Type) check(parsed any) error {
	if t.Rule == "" {
		return nil
	}
	return annotation.Check(validate(), parsed, t.Rule)
}

func (t *Type) matches(text string) bool {
	compiled, known := patterns.Load(t.Pattern)
	if !known {
		compiled, _ = patterns.LoadOrStore(t.Pattern, regexp.MustCompile("^(?:"+t.Pattern+")$"))
	}
	return compiled.(*regexp.Regexp).MatchString(text) //nolint:forcetypeassert // nothing else is in the map
}

func quote(s string) string { return annotation.Quote(s) }
