package policy

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/internal/annotation"
)

// bound is a least or greatest value.
type bound struct {
	text string
	// value is the bound in the unit that values are compared in: 1 or a nanosecond.
	value    int64
	duration bool
}

// newBound reads a bound for the values of a key, any key if d is nil.
func newBound(given *intstr.IntOrString, d *annotation.Descriptor) (*bound, error) {
	kind := ""
	if d != nil {
		kind = d.Type()
	}
	switch {
	case kind != "" && kind != "int" && kind != "duration":
		return nil, errors.New("must not be set: the key's values are neither integers nor durations")
	case given.Type == intstr.Int && kind == "duration":
		return nil, errors.New("must be a duration with a unit, such as 30s or 1h30m")
	case given.Type == intstr.Int:
		return &bound{text: given.String(), value: int64(given.IntVal)}, nil
	case kind == "int":
		return nil, errors.New("must be an integer without quotes")
	}
	parsed, err := annotation.ParseDuration(given.StrVal)
	if err != nil {
		return nil, errors.New("must be an integer, or a duration such as 30s or 1h30m")
	}
	return &bound{text: given.StrVal, value: int64(parsed), duration: true}, nil
}

func (b *bound) compare(raw string, value annotation.Value) (order int, ok bool) {
	is, ok := b.read(raw, value)
	return cmp.Compare(b.value, is), ok
}

// atMost tells whether the bound is at most a value: whether it holds as the least.
func (b *bound) atMost(raw string, value annotation.Value) bool {
	order, ok := b.compare(raw, value)
	return ok && order <= 0
}

// atLeast tells whether the bound is at least a value: whether it holds as the greatest.
func (b *bound) atLeast(raw string, value annotation.Value) bool {
	order, ok := b.compare(raw, value)
	return ok && order >= 0
}

// read takes the value of a key that is described, else what other clouds commonly write.
func (b *bound) read(raw string, value annotation.Value) (int64, bool) {
	switch {
	case value.IsValid():
		return value.Int(), true
	case b.duration:
		parsed, err := time.ParseDuration(raw)
		return int64(parsed), err == nil
	}
	parsed, err := strconv.ParseInt(raw, 10, 64)
	return parsed, err == nil
}

// kind names the type, which the text alone does not for an integer.
func (b *bound) kind() string {
	if b.duration {
		return "a duration of "
	}
	return ""
}
