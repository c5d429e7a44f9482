package cloudapi

import (
	"errors"
	"maps"
)

// ErrPlanned is the error of a write that was passed to Options.Plan in place of the cloud.
var ErrPlanned = errors.New("planned, not sent")

// PlannedWrite is a request that changes something in the cloud, as it is sent.
type PlannedWrite struct {
	Method string
	// Path includes the API's version and the query.
	Path string
	// Header has the preconditions, the idempotency key and a content type other than JSON.
	Header map[string]string
	// Body is nil if there is none.
	Body []byte
}

// plan passes a write to Options.Plan, if that is set, and reports whether it did. Dry runs are no writes: they change
// nothing, and what is written next depends on them.
func (c *Client) plan(r *request, body []byte) bool {
	if c.o.Plan == nil || !r.writes() || r.query.Get("dry_run") != "" {
		return false
	}
	w := PlannedWrite{Method: r.method, Path: r.target(), Header: maps.Clone(r.header), Body: body}
	if len(r.query) > 0 {
		w.Path += "?" + r.query.Encode()
	}
	c.o.Plan(w)
	return true
}
