package annotation

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The strict dialects, as Quaymaster's own catalog uses them.
var (
	digits   = strict(&Type{Type: Int, Dialect: Digits})
	duration = strict(&Type{Type: Duration, Dialect: OrderedUnits})
	tags     = strict(&Type{Type: Map, UniqueKeys: true, Keys: &Type{Type: Text, Rule: "tagkey"}, Of: &Type{Type: Text, Rule: "tagvalue"}})
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

// FuzzParseDuration compares with the standard library: what is accepted means the same.
func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"1h30m", "1500ms", "0s", "1.5s", "1s1s", "9999999999999h", "01s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := duration.Parse(raw)
		if err != nil {
			return
		}
		// Numbers of seconds are exact for every duration that a controller accepts.
		if want, err := time.ParseDuration(raw); err == nil && want < 1000*time.Hour && want != got.Duration() {
			t.Errorf("Parse(%q) = %v, time.ParseDuration returns %v, %v", raw, got.Duration(), want, err)
		}
	})
}

// FuzzParseTags checks that no pair is lost or invented.
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
