package cloudapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Changes reads what happened to objects of the kinds after the revision since, which is that of an earlier response
// or of a list. If nothing did, the cloud holds the response for at most wait, in whole seconds. If since is too old,
// the error has the code page-token-expired: the caller must list again.
func (c *Client) Changes(
	ctx context.Context, since string, kinds []string, wait time.Duration,
) (*cloudv1.Changes, error) {
	r := &request{method: http.MethodGet, path: "/v1/changes", query: url.Values{
		"since": {since}, "kinds": {strings.Join(kinds, ",")},
	}}
	if s := int(wait / time.Second); s > 0 {
		r.query.Set("wait", strconv.Itoa(s))
		r.hold = time.Duration(s) * time.Second
	}
	return readValid(ctx, c, r, "items or revision is missing", func(changes *cloudv1.Changes) bool {
		return changes.Items != nil && changes.Revision != ""
	})
}
