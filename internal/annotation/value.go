package annotation

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// errEmpty and errSpace are what no value of any type may be: nothing is trimmed, clamped or silently defaulted.
var (
	errEmpty = errors.New("it is empty")
	errSpace = errors.New("it contains whitespace")
)

func checkText(raw string) error {
	if raw == "" {
		return errEmpty
	}
	if strings.ContainsFunc(raw, unicode.IsSpace) {
		return errSpace
	}
	return nil
}

// ParseInt reads 0|[1-9][0-9]* in ASCII digits. A number that does not fit is math.MaxInt, for a range to refuse.
func ParseInt(raw string) (int, error) {
	if err := checkText(raw); err != nil {
		return 0, err
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r < '0' || r > '9' }) {
		return 0, errors.New("only the digits 0 to 9 may occur")
	}
	if len(raw) > 1 && raw[0] == '0' {
		return 0, errors.New("it has a leading zero")
	}
	n, err := strconv.Atoi(raw)
	if errors.Is(err, strconv.ErrRange) {
		return math.MaxInt, nil
	}
	return n, err
}

// units are in the order in which a duration may name them. ms stands before m and s where a suffix is matched.
var units = []struct {
	name  string
	value time.Duration
}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// ParseDuration reads components such as 1h30m, 1500ms or 0s: an integer and a unit of h, m, s, ms, each at most once,
// in that order. A duration that does not fit is math.MaxInt64, for a range to refuse.
func ParseDuration(raw string) (time.Duration, error) {
	if err := checkText(raw); err != nil {
		return 0, err
	}
	var total time.Duration
	next := 0
	for rest := raw; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits == 0 || digits == len(rest) {
			return 0, errors.New("every number needs a unit, and every unit a number without sign or fraction")
		}
		n, err := ParseInt(rest[:digits])
		if err != nil {
			return 0, err
		}
		rest = rest[digits:]
		name := rest[:len(rest)-len(strings.TrimLeftFunc(rest, func(r rune) bool { return r < '0' || r > '9' }))]
		at := slices.IndexFunc(units, func(u struct {
			name  string
			value time.Duration
		}) bool {
			return u.name == name
		})
		if strings.HasPrefix(name, ".") {
			return 0, errors.New("fractions are not read; a smaller unit says the same")
		}
		if at < 0 {
			return 0, fmt.Errorf("%q is no unit of h, m, s, ms", name)
		}
		if at < next {
			return 0, errors.New("the units h, m, s, ms may occur once each, in that order")
		}
		next = at + 1
		rest = rest[len(name):]
		if n > int((math.MaxInt64-total)/units[at].value) {
			total = math.MaxInt64
			continue
		}
		total += time.Duration(n) * units[at].value
	}
	return total, nil
}

// ParseBool reads true or false.
func ParseBool(raw string) (bool, error) {
	if err := checkText(raw); err != nil {
		return false, err
	}
	if raw != "true" && raw != "false" {
		return false, errors.New("nothing else is read as true or false")
	}
	return raw == "true", nil
}

// ParseText reads a value that is its own text.
func ParseText(raw string) (string, error) { return raw, checkText(raw) }

// ParseList reads elements separated by commas, none empty and none twice.
func ParseList(raw string) ([]string, error) {
	if err := checkText(raw); err != nil {
		return nil, err
	}
	list := strings.Split(raw, ",")
	seen := make(map[string]bool, len(list))
	for i, element := range list {
		if element == "" {
			return nil, fmt.Errorf("element %d is empty", i+1)
		}
		if seen[element] {
			return nil, fmt.Errorf("%s occurs twice", Quote(element))
		}
		seen[element] = true
	}
	return list, nil
}

// ParseTags reads a list of key=value, no key twice. A value may be empty.
func ParseTags(raw string) (map[string]string, error) {
	list, err := ParseList(raw)
	if err != nil {
		return nil, err
	}
	tags := make(map[string]string, len(list))
	for _, element := range list {
		key, value, found := strings.Cut(element, "=")
		if !found {
			return nil, fmt.Errorf("%s lacks a =", Quote(element))
		}
		if _, twice := tags[key]; twice {
			return nil, fmt.Errorf("the key %s occurs twice", Quote(key))
		}
		tags[key] = value
	}
	return tags, nil
}

// Quote shows a piece of what the user wrote, short enough for a message.
func Quote(s string) string {
	const most = 64
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.Quote(s)
}
