package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// httpFailure is a response without an admission decision.
type httpFailure struct {
	status int
	// problem is the line that the caller gets.
	problem string
	// cause is only logged; it is set for our own failures.
	cause error
	// retry tells the caller to try again.
	retry bool
	// allow is the method that the caller must use instead.
	allow string
}

func (f *httpFailure) write(w http.ResponseWriter) {
	if f.retry {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds))
	}
	if f.allow != "" {
		w.Header().Set("Allow", f.allow)
	}
	http.Error(w, f.problem, f.status)
}

// maxProblemBytes bounds what is logged and sent back, because an error may quote an arbitrarily long part of the body.
const maxProblemBytes = 512

func badRequest(err error) *httpFailure {
	problem := err.Error()
	if len(problem) > maxProblemBytes {
		problem = strings.ToValidUTF8(problem[:maxProblemBytes], "") + "…"
	}
	return &httpFailure{status: http.StatusBadRequest, problem: problem}
}

// internalError hides the cause from the user, who cannot fix it.
func internalError(cause error) *httpFailure {
	return &httpFailure{
		status: http.StatusInternalServerError, problem: "internal error; see the webhook's log", cause: cause,
	}
}

func tooLarge() *httpFailure {
	return &httpFailure{
		status:  http.StatusRequestEntityTooLarge,
		problem: fmt.Sprintf("body must be at most %d bytes", maxBodyBytes),
	}
}

// readBody reads the whole body within the deadline of the context, because a caller that sends nothing would otherwise
// occupy the Limit forever.
func readBody(ctx context.Context, w http.ResponseWriter, r *http.Request) ([]byte, *httpFailure) {
	// Not every ResponseWriter supports deadlines; that of http.Server does.
	control := http.NewResponseController(w)
	deadline, _ := ctx.Deadline()
	limited := control.SetReadDeadline(deadline) == nil
	body, err := readAll(http.MaxBytesReader(w, r.Body, maxBodyBytes), r.ContentLength)
	var long *http.MaxBytesError
	switch {
	case err == nil:
		if limited {
			// The connection also serves the next request. After an error the deadline stays: without it, the server
			// would wait for the rest of the body before it responds.
			_ = control.SetReadDeadline(time.Time{})
		}
		return body, nil
	case errors.As(err, &long):
		return nil, tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &httpFailure{status: http.StatusRequestTimeout, problem: "body did not arrive within the timeout"}
	}
	return nil, badRequest(fmt.Errorf("read body: %w", err))
}

// readAll reads everything, with a single allocation if the length is known; an unknown length is -1.
func readAll(r io.Reader, length int64) ([]byte, error) {
	if length < 0 {
		return io.ReadAll(r)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(r, body)
	return body, err
}
