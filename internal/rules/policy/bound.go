package policy

import (
	"errors"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
)

// bound is a minimum or maximum.
type bound struct {
	text string
	// number is in seconds for a duration.
	number   float64
	duration bool
}

// durationType parses bounds that are durations.
var durationType = &annotation.Type{
	Type: annotation.Duration, Dialect: annotation.OrderedUnits, Empty: annotation.Invalid,
}

// newBound parses a bound for the values of an annotation. a is nil for a key that no catalog describes.
func newBound(given *intstr.IntOrString, a *document.Annotation) (*bound, error) {
	var kind annotation.Kind
	if a != nil {
		kind = a.Type.Type
	}
	switch {
	case kind != "" && kind != annotation.Int && kind != annotation.Duration:
		return nil, errors.New("must not be set: the values of the annotation are neither integers nor durations")
	case given.Type == intstr.Int && kind == annotation.Duration:
		return nil, errors.New("must be a duration with a unit, such as 30s or 1h30m")
	case given.Type == intstr.Int:
		return &bound{text: given.String(), number: float64(given.IntVal)}, nil
	case kind == annotation.Int:
		return nil, errors.New("must be an integer without quotes")
	}
	parsed, err := durationType.Parse(given.StrVal)
	if err != nil {
		return nil, errors.New("must be an integer, or a duration such as 30s or 1h30m")
	}
	return &bound{text: given.StrVal, number: parsed.Number, duration: true}, nil
}

// atMost reports whether the bound is at most a value, so that the value satisfies it as a minimum.
func (b *bound) atMost(raw string, value *annotation.Value) bool {
	number, ok := b.parse(raw, value)
	return ok && b.number <= number
}

// atLeast reports whether the bound is at least a value, so that the value satisfies it as a maximum.
func (b *bound) atLeast(raw string, value *annotation.Value) bool {
	number, ok := b.parse(raw, value)
	return ok && b.number >= number
}

// parse returns the value in the unit of the bound. value is nil for a key that no catalog describes: raw is then
// parsed in the notations that are common among clouds.
func (b *bound) parse(raw string, value *annotation.Value) (float64, bool) {
	switch {
	case value != nil:
		return value.Number, true
	case b.duration:
		parsed, err := time.ParseDuration(raw)
		return parsed.Seconds(), err == nil
	}
	parsed, err := strconv.ParseInt(raw, 10, 64)
	return float64(parsed), err == nil
}
