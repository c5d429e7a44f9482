package webhook

import (
	"fmt"
	"net/http"

	"quaymaster.dev/internal/visible"
)

// httpFailure is a response without an admission decision.
type httpFailure struct {
	status int
	// problem is the line that the caller gets.
	problem string
	// cause is only logged; it is set for our own failures.
	cause error
	// decision counts it; empty for the mistakes of callers.
	decision decision
}

func (f *httpFailure) write(w http.ResponseWriter) {
	if f.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	http.Error(w, f.problem, f.status)
}

// maxProblemBytes bounds what is logged and sent back, because an error may quote an arbitrarily long part of the body.
const maxProblemBytes = 512

func badRequest(err error) *httpFailure {
	return &httpFailure{status: http.StatusBadRequest, problem: visible.Shorten(err.Error(), maxProblemBytes)}
}

// internalError hides the cause from the user, who cannot fix it.
func internalError(cause error) *httpFailure {
	return &httpFailure{
		status: http.StatusInternalServerError, problem: "internal error; see the webhook's log", cause: cause,
		decision: decisionFailed,
	}
}

func tooLarge() *httpFailure {
	return &httpFailure{
		status: http.StatusRequestEntityTooLarge, problem: fmt.Sprintf("body must be at most %d bytes", maxBodyBytes),
	}
}

// overloaded makes the failurePolicy decide immediately. The API server repeats a call that was answered with 429, or
// with Retry-After, until its own timeout, while the user waits.
func overloaded() *httpFailure {
	return &httpFailure{
		status: http.StatusServiceUnavailable, problem: "too many concurrent admission requests",
		decision: decisionOverloaded,
	}
}
