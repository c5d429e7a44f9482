package webhook

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

// httpFailure is a response without an admission decision.
type httpFailure struct {
	status int
	// problem is the line that the caller gets.
	problem string
	// cause is only logged; it is set for our own failures.
	cause error
	// overload is true if the request was refused for lack of capacity.
	overload bool
	// allow is the method that the caller must use instead.
	allow string
}

func (f *httpFailure) write(w http.ResponseWriter) {
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

// overloaded makes the failurePolicy decide immediately. The API server repeats a call that was answered with 429, or
// with Retry-After, until its own timeout, while the user waits.
func overloaded() *httpFailure {
	return &httpFailure{
		status: http.StatusServiceUnavailable, problem: "too many concurrent admission requests", overload: true,
	}
}

// body is the memory of a request's body.
type body struct {
	// pooled is the buffer of a small body, and of the beginning of a large one; nil before.
	pooled *[]byte
	// counted is the length of the buffer of a large body.
	counted int64
	// complete is true once the whole body has arrived.
	complete bool
}

var smallBodies = sync.Pool{New: func() any { b := make([]byte, smallBodyBytes); return &b }}

// read reads the body. What it returns is valid until the claim is released. The server's read timeout bounds how long
// it takes.
func (c *claim) read(r *http.Request) ([]byte, *httpFailure) {
	if c.body.pooled == nil {
		c.body.pooled, _ = smallBodies.Get().(*[]byte)
	}
	buffer, length := *c.body.pooled, 0
	for {
		n, err := r.Body.Read(buffer[length:])
		length += n
		switch {
		case err == nil && int64(length) == r.ContentLength, errors.Is(err, io.EOF) && int64(length) >= r.ContentLength:
			c.body.complete = true
			return buffer[:length], nil
		case errors.Is(err, io.EOF):
			return nil, badRequest(fmt.Errorf("read body: %w", io.ErrUnexpectedEOF))
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, &httpFailure{status: http.StatusRequestTimeout, problem: "body did not arrive within the timeout"}
		case err != nil:
			return nil, badRequest(fmt.Errorf("read body: %w", err))
		case length > maxBodyBytes:
			return nil, tooLarge()
		case length < len(buffer):
			continue
		}
		var failure *httpFailure
		if buffer, failure = c.grow(buffer, r.ContentLength); failure != nil {
			return nil, failure
		}
	}
}

// grow returns a buffer of twice the length with the same content, or a shorter one if that suffices for the announced
// length. So a caller makes us use no more memory than twice what it has sent.
func (c *claim) grow(full []byte, announced int64) ([]byte, *httpFailure) {
	size := min(2*int64(len(full)), maxBodyBytes+1)
	if announced > 0 {
		size = min(size, announced)
	}
	if !c.limit.bytes.take(c.caller, size) {
		return nil, overloaded()
	}
	before := c.body.counted
	c.body.counted += size
	larger := make([]byte, size)
	copy(larger, full)
	if before > 0 {
		c.limit.bytes.giveBack(c.caller, before)
		c.body.counted = size
	}
	return larger, nil
}

func (b *body) release(c *claim) {
	if b.counted > 0 {
		c.limit.bytes.giveBack(c.caller, b.counted)
	}
	if b.pooled != nil {
		smallBodies.Put(b.pooled)
	}
	*b = body{}
}
