package annotation

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-playground/validator/v10"
	"k8s.io/apimachinery/pkg/util/validation"
	netutils "k8s.io/utils/net"
)

// The tags that the project adds to those of go-playground/validator.
const (
	tagDNSLabel     = "dnslabel"  // DNS-1123 label
	tagDNSName      = "dnsname"   // DNS-1123 subdomain, not an IP address
	tagPrefixed     = "prefixed"  // prefixed=cert- 8 64: the prefix, then 8 to 64 of [a-z0-9-]
	tagPath         = "urlpath"   // absolute path of a health check
	tagCodes        = "codes"     // HTTP status codes and ranges of them
	tagTagKey       = "tagkey"    // key of a tag
	tagTagValue     = "tagvalue"  // value of a tag
	tagNot          = "not"       // not=true false: anything except these words
	tagWholeSeconds = "wholesecs" // duration in whole seconds
	reservedTags    = "quaymaster.dev/"
	lowestCode      = 100
	highestCode     = 599
	longestPath     = 255
	longestTagKey   = 63
	longestTag      = 255
)

var (
	tagKeyPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)
	idPattern     = regexp.MustCompile(`^[a-z0-9-]*$`)
	codePattern   = regexp.MustCompile(`^[0-9]{3}(-[0-9]{3})?$`)
)

// newValidator returns go-playground/validator with the project's own tags.
func newValidator() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	tags := map[string]func(value, param string) bool{
		tagDNSLabel: func(s, _ string) bool { return len(validation.IsDNS1123Label(s)) == 0 },
		tagDNSName:  func(s, _ string) bool { return isDNSName(s) },
		tagPrefixed: isPrefixed,
		tagPath:     func(s, _ string) bool { return isPath(s) },
		tagCodes:    func(s, _ string) bool { return isCodes(s) },
		tagTagKey:   func(s, _ string) bool { return isTagKey(s) },
		tagTagValue: func(s, _ string) bool { return isTagValue(s) },
		tagNot:      func(s, words string) bool { return !slices.Contains(strings.Fields(words), s) },
	}
	for tag, isValid := range tags {
		must(v.RegisterValidation(tag, func(fl validator.FieldLevel) bool {
			return isValid(fl.Field().String(), fl.Param())
		}))
	}
	must(v.RegisterValidation(tagWholeSeconds, func(fl validator.FieldLevel) bool {
		return fl.Field().Int()%int64(1e9) == 0
	}))
	return v
}

func isDNSName(s string) bool {
	// The API server also parses 192.168.010.001 as an address, and therefore refuses it as a published name.
	return netutils.ParseIPSloppy(s) == nil && len(validation.IsDNS1123Subdomain(s)) == 0
}

func isPrefixed(s, param string) bool {
	prefix, low, high := prefixedParam(param)
	rest, ok := strings.CutPrefix(s, prefix)
	return ok && len(rest) >= low && len(rest) <= high && idPattern.MatchString(rest)
}

func prefixedParam(param string) (prefix string, low, high int) {
	parts := strings.Fields(param)
	low, err1 := strconv.Atoi(parts[1])
	high, err2 := strconv.Atoi(parts[2])
	must(errors.Join(err1, err2))
	return parts[0], low, high
}

func isPath(s string) bool {
	return strings.HasPrefix(s, "/") && len(s) <= longestPath &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' })
}

func isCodes(s string) bool {
	if !codePattern.MatchString(s) {
		return false
	}
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	low, err1 := strconv.Atoi(first)
	high, err2 := strconv.Atoi(last)
	return err1 == nil && err2 == nil && lowestCode <= low && low <= high && high <= highestCode
}

func isTagKey(s string) bool {
	return len(s) <= longestTagKey && tagKeyPattern.MatchString(s) && !strings.HasPrefix(s, reservedTags)
}

func isTagValue(s string) bool {
	return len(s) <= longestTag &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' || r == '=' })
}

// must panics on an error that only a bug in the program can cause, never its input.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
