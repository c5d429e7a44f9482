package doctor

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Level is how bad something is.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
	Skip Level = "skip"
)

// Result is what a check has found.
type Result struct {
	// Check is its name.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Found is what is the case, Remedy what to do about it.
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`

	// blind is one that could not look, so that what builds on it cannot either.
	blind bool
}

func ok(found string, args ...any) Result {
	return Result{Level: OK, Found: fmt.Sprintf(found, args...)}
}

func skip(reason string, args ...any) Result {
	return Result{Level: Skip, Found: fmt.Sprintf(reason, args...)}
}

func warn(remedy, found string, args ...any) Result {
	return Result{Level: Warn, Found: fmt.Sprintf(found, args...), Remedy: remedy}
}

func fail(remedy, found string, args ...any) Result {
	return Result{Level: Fail, Found: fmt.Sprintf(found, args...), Remedy: remedy}
}

// unread is a question that the API server did not answer. What this user may not see is not broken for that.
func unread(what string, err error) Result {
	if apierrors.IsForbidden(err) {
		r := warn("run it as a user who may read that", "%s: not looked at: %v", what, err)
		r.blind = true
		return r
	}
	return fail("see whether the API server is healthy, and repeat it", "%s: %v", what, err)
}
