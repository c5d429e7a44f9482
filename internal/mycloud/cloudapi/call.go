package cloudapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Call describes one request that has ended. Operation and Code have few values, so that metrics can use them as
// labels.
type Call struct {
	// Operation is the method and the path without ids, such as GET load-balancers/{id}.
	Operation string
	// Code is the HTTP status of the response or, without a response of the API, one of the codes below.
	Code string
	// Duration is the time until the response was read.
	Duration time.Duration
}

// The codes of calls without a response of the API.
const (
	// CallTimeout is the code if the response did not arrive in time.
	CallTimeout = "timeout"
	// CallConnection is the code if the connection failed.
	CallConnection = "connection"
	// CallCanceled is the code if the caller canceled the call.
	CallCanceled = "canceled"
	// CallInvalidResponse is the code of a success that is not of the API, such as a proxy's HTML.
	CallInvalidResponse = "invalid-response"
	// CallOtherState is the code of a response of a different cloud, or of one that was restored to an earlier state.
	CallOtherState = "other-state"
)

func (r *request) operation() string { return r.method + " " + strings.TrimPrefix(r.path, "/v1/") }

// code returns how the request ended.
func (r *request) code(ctx context.Context, resp *response, err error) string {
	var answer *Error
	var slow interface{ Timeout() bool }
	switch {
	case err == nil:
		return strconv.Itoa(resp.status)
	case errors.Is(err, ErrNotModified):
		return strconv.Itoa(http.StatusNotModified)
	case errors.Is(err, ErrOtherState):
		return CallOtherState
	case errors.As(err, &answer):
		return strconv.Itoa(answer.Status)
	case errors.Is(err, errMalformed):
		return CallInvalidResponse
	case errors.Is(err, context.Canceled), r.hold > 0 && ctx.Err() != nil:
		// A cloud that was asked to hold its response is not slow.
		return CallCanceled
	case errors.As(err, &slow) && slow.Timeout():
		return CallTimeout
	}
	return CallConnection
}
