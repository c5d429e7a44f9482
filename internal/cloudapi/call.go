package cloudapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Call is one request that has ended. What it says of it takes few values, so that metrics can be named by them.
type Call struct {
	// Operation is method and path without ids, such as GET load-balancers/{id}.
	Operation string
	// Code is the HTTP status of the answer or, where there was none that the API could have given, one of the words below.
	Code string
	// Duration is the time until the answer was read.
	Duration time.Duration
}

// The codes of calls that were not answered.
const (
	// CallTimeout is an answer that did not come in time.
	CallTimeout = "timeout"
	// CallConnection is a connection that could not be made or broke.
	CallConnection = "connection"
	// CallCanceled is a call whose caller did not want the answer any more.
	CallCanceled = "canceled"
	// CallInvalidResponse is a success that is not of the API: HTML of a proxy, say.
	CallInvalidResponse = "invalid-response"
)

func (r *request) operation() string { return r.method + " " + strings.TrimPrefix(r.path, "/v1/") }

// code tells how the request ended.
func (r *request) code(ctx context.Context, resp *response, err error) string {
	var answer *Error
	var slow interface{ Timeout() bool }
	switch {
	case err == nil:
		return strconv.Itoa(resp.status)
	case errors.Is(err, ErrNotModified):
		return strconv.Itoa(http.StatusNotModified)
	case errors.As(err, &answer):
		return strconv.Itoa(answer.Status)
	case errors.Is(err, errMalformed):
		return CallInvalidResponse
	case errors.Is(err, context.Canceled), r.held && ctx.Err() != nil:
		// A cloud that was asked to keep its answer back is not slow.
		return CallCanceled
	case errors.As(err, &slow) && slow.Timeout():
		return CallTimeout
	}
	return CallConnection
}
