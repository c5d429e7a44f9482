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

// httpFailure is an answer that is no verdict.
type httpFailure struct {
	status int
	// problem is the one line that the caller gets.
	problem string
	// cause is for the log alone; it is set where the trouble is ours.
	cause error
	// retry invites the caller to try again.
	retry bool
	// allow is the method to use instead.
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

// longestProblem bounds what is logged and sent back: an error may quote as much of the body as its sender likes.
const longestProblem = 512

func badRequest(err error) *httpFailure {
	problem := err.Error()
	if len(problem) > longestProblem {
		problem = strings.ToValidUTF8(problem[:longestProblem], "") + "…"
	}
	return &httpFailure{status: http.StatusBadRequest, problem: problem}
}

// internalError keeps the cause from the user, who can do nothing about it.
func internalError(cause error) *httpFailure {
	return &httpFailure{status: http.StatusInternalServerError, problem: "the webhook failed; its log says why", cause: cause}
}

func tooLarge() *httpFailure {
	return &httpFailure{
		status:  http.StatusRequestEntityTooLarge,
		problem: fmt.Sprintf("body must not be longer than %d bytes", maxBodyBytes),
	}
}

// readBody reads the whole body before the deadline of the context, because a caller that sends nothing would hold its place
// under the Limit for ever.
func readBody(ctx context.Context, w http.ResponseWriter, r *http.Request) ([]byte, *httpFailure) {
	// Not every ResponseWriter has deadlines; the server's own has.
	control := http.NewResponseController(w)
	deadline, _ := ctx.Deadline()
	limited := control.SetReadDeadline(deadline) == nil
	body, err := readAll(http.MaxBytesReader(w, r.Body, maxBodyBytes), r.ContentLength)
	var long *http.MaxBytesError
	switch {
	case err == nil:
		if limited {
			// The connection serves the next call, too. After an error the deadline stays: the server would wait for the rest
			// of the body before it answers.
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

// readAll allocates once where the length is known; it is -1 otherwise.
func readAll(r io.Reader, length int64) ([]byte, error) {
	if length < 0 {
		return io.ReadAll(r)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(r, body)
	return body, err
}
