// Package etag compares the ETags that requests name with revisions.
package etag

import (
	"net/http"
	"strings"

	"quaymaster.dev/internal/mycloud/server/api/failure"
)

// Matches reports whether a list of ETags contains a revision. Weak ETags match only if weak is true.
func Matches(header, revision string, weak bool) bool {
	return Any(header, weak, func(tag string) bool { return tag == revision })
}

// Any reports whether a list of ETags contains one that fits. Weak ETags fit only if weak is true.
func Any(header string, weak bool, fits func(string) bool) bool {
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

// Of returns the ETag of a revision.
func Of(revision string) string { return `"` + revision + `"` }

// NotModified returns the response to a conditional read whose revision is still current.
func NotModified(revision string) error {
	return failure.New(http.StatusNotModified, "", "not modified").With("ETag", Of(revision))
}
