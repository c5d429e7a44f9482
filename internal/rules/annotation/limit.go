package annotation

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// limit is a rule whose tags min and max are parsed once. The validator would parse and box them for every value.
type limit struct {
	least, most int64
	// rest holds the other tags, for the validator.
	rest string
}

// newLimit parses the rule of an integer or a duration, whose unit is then a nanosecond.
func newLimit(t *Type) *limit {
	if t.Rule == "" || t.Type != Int && t.Type != Duration {
		return nil
	}
	l := &limit{least: math.MinInt64, most: math.MaxInt64}
	var rest []string
	for tag := range strings.SplitSeq(t.Rule, ",") {
		name, param, _ := strings.Cut(tag, "=")
		switch name {
		case "min":
			l.least = t.parseLimit(param)
		case "max":
			l.most = t.parseLimit(param)
		default:
			rest = append(rest, tag)
		}
	}
	l.rest = strings.Join(rest, ",")
	return l
}

func (t *Type) parseLimit(param string) int64 {
	if t.Type == Duration {
		d, err := time.ParseDuration(param)
		must(err)
		return int64(d)
	}
	n, err := strconv.ParseInt(param, 10, 64)
	must(err)
	return n
}
