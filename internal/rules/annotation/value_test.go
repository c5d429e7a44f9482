package annotation

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The strict dialects of Quaymaster's own catalog.
var (
	digits   = strict(&Type{Type: Int, Dialect: Digits})
	duration = strict(&Type{Type: Duration, Dialect: OrderedUnits})
	tags     = strict(&Type{
		Type: Map, UniqueKeys: true, Keys: &Type{Type: Text, Rule: "tagkey"}, Of: &Type{Type: Text, Rule: "tagvalue"},
	})
)

func strict(t *Type) *Type {
	t.Complete("")
	return t
}

func TestParseInt(t *testing.T) {
	tests := map[string]struct {
		want float64
		ok   bool
	}{
		"0": {0, true}, "7": {7, true}, "1000000": {1000000, true},
		"99999999999999999999": {math.MaxInt64, true}, "": {}, "00": {}, "07": {}, "+7": {}, "-7": {}, " 7": {}, "7\n": {}, "7.0": {}, "0x7": {}, "٧": {}, "1_0": {},
	}
	for raw, test := range tests {
		got, err := digits.Parse(raw)
		if got.Number != test.want || (err == nil) != test.ok {
			t.Errorf("Parse(%q) = %v, %v", raw, got.Number, err)
		}
	}
}

func TestParseDuration(t *testing.T) {
	tests := map[string]struct {
		want time.Duration
		ok   bool
	}{
		"0s": {0, true}, "1h30m": {90 * time.Minute, true}, "1500ms": {1500 * time.Millisecond, true},
		"1h0m0s0ms": {time.Hour, true}, "2s5ms": {2005 * time.Millisecond, true}, "1m1ms": {time.Minute + time.Millisecond, true},
		"9999999999999h": {math.MaxInt64, true}, "99999999999999999999s1ms": {math.MaxInt64, true},
		"": {}, "1": {}, "s": {}, "1.5s": {}, "-1s": {}, "1S": {}, "1s1s": {}, "1m1h": {}, "1ms1s": {}, "01s": {}, "1h 1m": {},
		"1d": {}, "1us": {}, "1µs": {}, "1sm": {}, "1h1": {}, "٣s": {},
	}
	for raw, test := range tests {
		got, err := duration.Parse(raw)
		if (err == nil) != test.ok || test.ok && got.Duration() != test.want {
			t.Errorf("Parse(%q) = %v, %v", raw, got.Duration(), err)
		}
	}
}

func TestParseTags(t *testing.T) {
	got, err := tags.Parse("a=1,b=,c/d=x.y")
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "", "c/d": "x.y"}, got.Map); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, raw := range []string{"", "a", "a=1,a=2", "a=1,,b=2", "a=1, b=2", "a=b=c"} {
		if v, err := tags.Parse(raw); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", raw, v.Map)
		}
	}
}

func TestNearest(t *testing.T) {
	keys := []string{
		"listener-protocol", "listener-maxqps", "listener-maxconn", "listener-idle-timeout", "scheduler",
		"health-check-protocol", "health-check-path", "health-check-timeout", "network-type", "zones", "tags",
	}
	tests := map[string]string{
		"listener-maxqsp": "listener-maxqps", "listener-max-qps": "listener-maxqps", "maxqps": "listener-maxqps",
		"Listener_MaxQPS": "listener-maxqps", "sheduler": "scheduler", "helth-check-path": "health-check-path",
		"check-path": "health-check-path", "protocol": "listener-protocol", "idle-timeout": "listener-idle-timeout",
		"networktype": "network-type", "zone": "zones", "": "tags",
	}
	for name, want := range tests {
		if got, _ := Nearest(name, keys); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

// FuzzParseDuration checks that the standard library parses every accepted duration to the same value.
func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"1h30m", "1500ms", "0s", "1.5s", "1s1s", "9999999999999h", "01s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := duration.Parse(raw)
		if err != nil {
			return
		}
		// A float64 holds the seconds of every duration that a controller accepts without loss.
		if want, err := time.ParseDuration(raw); err == nil && want < 1000*time.Hour && want != got.Duration() {
			t.Errorf("Parse(%q) = %v, time.ParseDuration returns %v, %v", raw, got.Duration(), want, err)
		}
	})
}

// FuzzParseTags checks that parsing neither loses nor adds a pair.
func FuzzParseTags(f *testing.F) {
	for _, seed := range []string{"a=1,b=2", "a=", "=,=", "a==b", ",", "a=1,a=2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		v, err := tags.Parse(raw)
		if err != nil {
			return
		}
		length := len(v.Map) - 1
		for key, value := range v.Map {
			length += len(key) + 1 + len(value)
		}
		if length != len(raw) {
			t.Errorf("Parse(%q) = %q", raw, v.Map)
		}
	})
}

func TestJSONOf(t *testing.T) {
	texts := Type{Type: JSON, Values: []string{jsonObject}, Of: &Type{Type: Text}}
	groups := Type{Type: JSON, Values: []string{jsonObject}, Of: &texts}
	ports := Type{
		Type: JSON, Values: []string{jsonObject},
		Keys: &Type{Type: Enum, Values: []string{"HTTP", "HTTPS"}}, Of: &Type{Type: Int, Rule: "min=1,max=65535"},
	}
	tests := map[string]struct {
		typ   Type
		value string
		good  bool
	}{
		"ports":               {ports, `{"HTTP": 80, "HTTPS": 443}`, true},
		"no ports":            {ports, `{}`, true},
		"another key":         {ports, `{"TCP": 80}`, false},
		"text for a number":   {ports, `{"HTTP": "80"}`, false},
		"fraction":            {ports, `{"HTTP": 80.5}`, false},
		"number out of range": {ports, `{"HTTP": 65536}`, false},
		"large number":        {ports, `{"HTTP": 1e30}`, false},
		"word":                {Type{Type: JSON, Of: &Type{Type: Enum, Values: []string{"a"}}}, `["a"]`, true},
		"number for a word":   {Type{Type: JSON, Of: &Type{Type: Enum, Values: []string{"1"}}}, `[1]`, false},
		"texts":               {texts, `{"a": "1", "b": ""}`, true},
		"null for a text":     {texts, `{"a": null}`, true},
		"number for a text":   {texts, `{"a": 1}`, false},
		"array":               {texts, `["a"]`, false},
		"groups":              {groups, `{"a": {"b": "1"}}`, true},
		"text for a group":    {groups, `{"a": "1"}`, false},
		"array of texts":      {Type{Type: JSON, Of: &Type{Type: Text}}, `["a", 1]`, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := test.typ.Parse(test.value); (err == nil) != test.good {
				t.Errorf("got error %v, want valid: %t", err, test.good)
			}
		})
	}
}

func TestJSONFields(t *testing.T) {
	action := &Type{
		Type: JSON, Values: []string{jsonObject}, Required: []string{"type"}, By: "type", Exclusive: []string{"target|name"},
		Cases: map[string][]string{"redirect": {"redirect"}, "forward": {"target|name"}},
		Entries: map[string]*Type{
			"type": {Type: Enum, Values: []string{"redirect", "forward"}}, "target": {Type: Text}, "name": {Type: Text}, "sticky": {Type: Bool},
			"redirect": {Type: JSON, Values: []string{jsonObject}, Entries: map[string]*Type{"code": {Type: Int, Rule: "min=301,max=302"}}},
		},
	}
	list := &Type{Type: JSON, Values: []string{jsonArray}, Of: action}
	action.Complete("")
	list.Complete("")
	if problems := list.Problems(); len(problems) > 0 {
		t.Errorf("problems: %q", problems)
	}
	for value, want := range map[string]struct {
		typ           *Type
		wrong, unread string
	}{
		`{"type": "redirect", "redirect": {"code": 301}}`:          {action, "", ""},
		`{"Type": "redirect", "Redirect": {"Code": 301}}`:          {action, "", ""},
		`{"type": "forward", "name": "a", "target": null}`:         {action, "", ""},
		`{"type": "forward", "name": "a", "sticky": true}`:         {action, "", ""},
		`{"type": "forward", "name": "a", "stiky": true}`:          {action, "", "stiky"},
		`{"type": "redirect", "redirect": {"code": 301, "x":1}}`:   {action, "", "redirect.x"},
		`{"type": "redirect", "redirect": {"code": 303}}`:          {action, "redirect.code must be an integer between 301 and 302", ""},
		`{"type": "redirect", "redirect": {}}`:                     {action, "", ""},
		`{"type": "redirect"}`:                                     {action, "it lacks redirect", ""},
		`{"type": "forward", "name": ""}`:                          {action, "it lacks target or name", ""},
		`{"type": "forward", "name": "a", "target": "b"}`:          {action, "it must have only one of target and name", ""},
		`{"type": "forward", "name": "a", "sticky": "true"}`:       {action, "sticky must be true or false, without quotes", ""},
		`{"type": "mirror"}`:                                       {action, "type must be one of redirect, forward", ""},
		`{}`:                                                       {action, "it lacks type", ""},
		`null`:                                                     {action, "it lacks type", ""},
		`[null]`:                                                   {list, "[0] lacks type", ""},
		`{"type": "redirect", "redirect": null}`:                   {action, "it lacks redirect", ""},
		`[{"type": "forward", "name": "a"}, {"name": "a"}]`:        {list, "[1] lacks type", ""},
		`[{"type": "forward", "name": "a", "x": 1}]`:               {list, "", "[0].x"},
		`{"type": "forward", "name": "a", "x.%s\n": 1}`:            {action, "", `"x.%s\n"`},
		`{"type": "redirect", "redirect": {"code": 303, "%d": 1}}`: {action, "redirect.code must be an integer between 301 and 302", ""},
		`[1]`: {list, "[0] must be a JSON object", ""},
	} {
		wrong := ""
		v, err := want.typ.Parse(value)
		if err != nil {
			wrong = err.Error()
		}
		unread, _, _ := want.typ.UnreadField(v)
		if wrong != want.wrong || want.wrong == "" && unread != want.unread {
			t.Errorf("%s: got %q and the unread field %q, want %q and %q", value, wrong, unread, want.wrong, want.unread)
		}
	}
}

func TestParseMap(t *testing.T) {
	attributes := &Type{
		Type: Map, Trim: true, Escape: true, Keys: &Type{Type: Text, Rule: "min=1"},
		Entries: map[string]*Type{"enabled": {Type: Bool}, "seconds": {Type: Int}},
	}
	attributes.Complete("")
	for name, c := range map[string]struct {
		text string
		want map[string]string
	}{
		"entries of their types":       {text: "enabled=T, seconds=5, other=x", want: map[string]string{"enabled": "true", "seconds": "5", "other": "x"}},
		"wrong type":                   {text: "enabled=yes"},
		"empty value of a type":        {text: "seconds="},
		"empty value without a type":   {text: "other=", want: map[string]string{"other": ""}},
		"empty key":                    {text: "=x"},
		"escaped comma":                {text: `other=x\,y,seconds=5`, want: map[string]string{"other": "x,y", "seconds": "5"}},
		"escaped backslash":            {text: `other=x\\,seconds=5`, want: map[string]string{"other": `x\`, "seconds": "5"}},
		"backslash at the end":         {text: `other=x\`, want: map[string]string{"other": `x\`}},
		"comma at the end":             {text: "other=x, ", want: map[string]string{"other": "x,"}},
		"comma after a number":         {text: "seconds=5,"},
		"empty entry":                  {text: "other=x,,seconds=5"},
		"assignment within the value":  {text: "other=a=b=", want: map[string]string{"other": "a=b="}},
		"empty":                        {text: "", want: nil},
		"entry without an assignment":  {text: "other=x,seconds"},
		"escape that is not necessary": {text: `ot\her=\x`, want: map[string]string{"other": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := attributes.Parse(c.text)
			if (err == nil) != (c.want != nil) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(c.want, p.Map); err == nil && diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}
