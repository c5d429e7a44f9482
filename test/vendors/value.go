package vendors

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/library"
)

// texts are values of free text, and of the tags in rules of texts. Those that a type does not accept are left out.
var texts = []string{
	"web", "a", "web-1", "example.com", "*.example.com", "lb.example.com", "10.0.0.5", "192.0.2.7", "2001:db8::7", "10.0.0.0/8",
	"2001:db8::/32", "0.0.0.0/0", "::/0", "/", "/healthz", "/healthz?x=1", "http://example.com", "https://example.com/x", "200", "200-299",
	"0", "1", "80", "8080", "true", "fsn1", "session", "Web Server", "web_server", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6", "subnet-1", "abc123",
	"{}", "[]", "a=b", "a=b,c=d", "名前",
}

// attempts bounds the search for a value that a type accepts.
const attempts = 12

// valid returns a value that the type accepts, or the example.
func (m *maker) valid(t *annotation.Type, example string) string {
	for range attempts {
		if value := m.guess(t); accepts(t, value) {
			return value
		}
	}
	return example
}

func accepts(t *annotation.Type, value string) bool {
	_, err := t.Parse(value)
	return err == nil
}

// guess returns a value that the type probably accepts.
func (m *maker) guess(t *annotation.Type) string {
	if t == nil {
		return m.one(texts)
	}
	if len(t.Values) > 0 && (t.Type == annotation.Enum || t.Type != annotation.JSON && m.chance(4)) {
		return m.anyCase(t, m.one(t.Values))
	}
	switch t.Type {
	case annotation.Bool:
		yes, no := t.BoolWords()
		return m.anyCase(t, m.one(slices.Concat(yes, no)))
	case annotation.Int:
		low, high := m.limits(t)
		return strconv.FormatInt(m.between(low, high), 10)
	case annotation.Float:
		return m.one([]string{"0", "1", "0.5", "1.5", "10", "100"})
	case annotation.Duration:
		low, high := m.limits(t)
		return time.Duration(m.between(low, high)).Round(time.Second).String()
	case annotation.List:
		return m.joined(t, t.Separator, func() string { return m.guess(t.Of) })
	case annotation.Map:
		return m.joined(t, t.Separator, func() string { return m.entry(t) })
	case annotation.JSON:
		return m.one([]string{"{}", "[]", `{"a":"b"}`, `["a"]`, `[{"a":"b"}]`, `{"a":["b"]}`, "null", `"a"`, "1"})
	case annotation.Selector:
		return m.one([]string{"app=web", "app==web", "tier!=cache", "app in (a,b)", "!edge", "a=b,c", ""})
	default: // Text
		if t.Pattern != "" && !m.chance(3) {
			return m.matching(t.Pattern)
		}
		return m.one(texts)
	}
}

// anyCase changes the case of a word if the controller ignores it.
func (m *maker) anyCase(t *annotation.Type, word string) string {
	if !t.Fold {
		return word
	}
	return m.one([]string{word, strings.ToUpper(word), strings.ToUpper(word[:1]) + word[1:]})
}

// joined returns up to three elements of a list or map.
func (m *maker) joined(t *annotation.Type, separator string, element func() string) string {
	var elements []string
	for range 1 + m.r.IntN(3) {
		elements = append(elements, element())
	}
	if t.Trim && m.chance(3) {
		separator += " "
	}
	return strings.Join(elements, separator)
}

// entry returns an entry of a map.
func (m *maker) entry(t *annotation.Type) string {
	key, of := m.guess(t.Keys), t.Of
	if len(t.Entries) > 0 && !m.chance(4) {
		key = m.one(slices.Sorted(maps.Keys(t.Entries)))
		of = t.Entries[key]
	}
	return key + t.Assign + m.guess(of)
}

// limits returns the limits of an integer, or of a duration in nanoseconds; without a rule, those of usual values.
func (m *maker) limits(t *annotation.Type) (low, high int64) {
	low, high = 0, 100
	parse := func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }
	if t.Type == annotation.Duration {
		high = int64(10 * time.Minute)
		parse = func(text string) (int64, error) {
			d, err := time.ParseDuration(text)
			return int64(d), err
		}
	}
	for tag := range strings.SplitSeq(t.Rule, ",") {
		name, param, _ := strings.Cut(tag, "=")
		n, err := parse(param)
		switch {
		case err != nil:
		case name == "min":
			low, high = n, max(high, n)
		case name == "max":
			high = n
		}
	}
	return min(low, high), high
}

func (m *maker) between(low, high int64) int64 {
	if m.chance(3) {
		return []int64{low, high}[m.r.IntN(2)]
	}
	return low + m.r.Int64N(high-low+1)
}

// boundary returns a value at, or just beyond, a limit of the type.
func (m *maker) boundary(t *annotation.Type) string {
	values := []string{"", " ", strings.Repeat("a", 64), strings.Repeat("a", 300)}
	switch t.Type {
	case annotation.Int:
		low, high := m.limits(t)
		for _, n := range []int64{low - 1, low, low + 1, high - 1, high, high + 1, 0, -1, math.MaxInt32, math.MaxInt32 + 1, math.MaxInt64, math.MinInt64} {
			values = append(values, strconv.FormatInt(n, 10))
		}
		values = append(values, "9223372036854775808", "99999999999999999999")
	case annotation.Float:
		values = append(values, "-0", "-1", "1e308", "1e309", "NaN", "Inf", "-Inf", "100.1")
	case annotation.Duration:
		low, high := m.limits(t)
		for _, n := range []int64{low - 1e9, low - 1, low, low + 1, high - 1, high, high + 1, high + 1e9, 0, -1e9} {
			values = append(values, time.Duration(n).String())
		}
		values = append(values, "2562047h", "2562048h", "1500ms", "1.5s")
	case annotation.List, annotation.Map:
		one := m.guess(t)
		sep := t.Separator
		values = append(values, sep, one+sep, sep+one, one+sep+sep+one, one+sep+one, one+sep+" "+one, strings.Repeat(one+sep, 60)+one)
	default:
		one := m.guess(t)
		values = append(values, one, " "+one, one+" ", one+"\n", "\t"+one)
	}
	return m.one(values)
}

// wrongs are values of many types.
var wrongs = []string{
	"", " ", "0", "1", "-1", "65536", "1.5", "true", "false", "yes", "on", "none", "null", "abc", "a b", "10s", "5m", "a,b", "a=b", "a=b,c", "{}",
	"[]", `{"a":1}`, `["a"]`, `{"a":`, "10.0.0.1", "10.0.0.256", "10.0.0.0/8", "10.0.0.0/33", "::1", "2001:db8::/32", "2001:db8::/129", "example.com", "-a", "a_b",
	"https://x", "/x", "x/", "é", "💥", "*", "?", "%", "a;b", "a|b", "a:b", "\\", "\"a\"",
}

// wrongType returns a value of a different type, or the invalid example.
func (m *maker) wrongType(e *library.Entry) string {
	if e.Invalid != nil && m.chance(5) {
		return *e.Invalid
	}
	return m.one(wrongs)
}

// dialect returns a value as another controller or tool writes it.
func (m *maker) dialect(t *annotation.Type) string {
	switch t.Type {
	case annotation.Bool:
		return m.one([]string{
			"true", "True", "TRUE", "tRUE", "t", "T", "1", "yes", "Yes", "y", "on", "ON", "enabled", "enable", "false", "False", "F", "0", "no",
			"off", "disabled", " true", "true ", `"true"`,
		})
	case annotation.Int:
		n := m.guess(t)
		return m.one([]string{"+" + n, "0" + n, "0x10", "0b11", "1_000", "1e3", n + ".0", " " + n, n + " ", n + "s", n + "%", "'" + n + "'", "٣"})
	case annotation.Duration:
		n := m.one([]string{"1", "10", "60", "90"})
		return m.one([]string{n, n + "s", n + "S", n + " s", n + "sec", n + "m", "PT" + n + "S", "1d", "1m30s", "1h1m1s", "0." + n + "s", "-" + n + "s", "+" + n + "s", n + "ms", n + "us", ".5s"})
	case annotation.List, annotation.Map:
		one := m.guess(t)
		return m.one([]string{
			strings.ReplaceAll(one, t.Separator, ";"), strings.ReplaceAll(one, t.Separator, " "), strings.ReplaceAll(one, t.Separator, t.Separator+" "),
			strings.ReplaceAll(one, t.Separator, "|"), "[" + one + "]", strconv.Quote(one), `["` + one + `"]`, "- " + one, strings.ToUpper(one),
		})
	default:
		one := m.guess(t)
		return m.one([]string{
			strings.ToUpper(one), strings.ToLower(one), strings.Title(one), strings.ReplaceAll(one, "_", "-"), //nolint:staticcheck // ASCII words
			strings.ReplaceAll(one, "-", "_"), " " + one, one + " ", strconv.Quote(one), one + ";", fmt.Sprintf("[%s]", one),
		})
	}
}
