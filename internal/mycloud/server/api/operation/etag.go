package operation

import (
	"net/http"
	"strings"

	"quaymaster.dev/internal/mycloud/server/api/failure"
)

// MatchesETag reports whether a list of ETags contains a revision. Weak ETags match only if weak is true.
func MatchesETag(header, revision string, weak bool) bool {
	return AnyETag(header, weak, func(tag string) bool { return tag == revision })
}

// AnyETag reports whether a list of ETags contains one that fits. Weak ETags fit only if weak is true.
func AnyETag(header string, weak bool, fits func(string) bool) bool {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimSpace(tag)
		if weak {
			tag = strings.TrimPrefix(tag, "W/")
		}
		if tag == "*" || !strings.HasPrefix(tag, "W/") && fits(strings.Trim(tag, `"`)) {
			return true
		}
	}
	return false
}

// ETagOf returns the ETag of a revision.
func ETagOf(revision string) string { return `"` + revision + `"` }

// NotModified returns the response to a conditional read whose revision is still current.
func NotModified(revision string) error {
	return failure.New(http.StatusNotModified, "", "not modified").With("ETag", ETagOf(revision))
}
