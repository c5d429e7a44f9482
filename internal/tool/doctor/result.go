package doctor

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Level is the severity of a result.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
	Skip Level = "skip"
)

// Result is the result of a check.
type Result struct {
	// Check is the name of the check.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Found says what the state is and what it means, Remedy how to fix it.
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`
	// Details lists the objects or causes that Found sums up.
	Details []string `json:"details,omitempty"`

	// blind is true if the check lacked the permission to read, so that the checks that need it cannot run.
	blind bool
}

// Passed returns the result of a check that found nothing wrong.
func Passed(found string, args ...any) Result {
	return Result{Level: OK, Found: fmt.Sprintf(found, args...)}
}

// Skipped returns the result of a check that does not apply.
func Skipped(reason string, args ...any) Result {
	return Result{Level: Skip, Found: fmt.Sprintf(reason, args...)}
}

// Warned returns the result of a check that found what may be wrong.
func Warned(remedy, found string, args ...any) Result {
	return Result{Level: Warn, Found: fmt.Sprintf(found, args...), Remedy: remedy}
}

// Failed returns the result of a check that found what is wrong.
func Failed(remedy, found string, args ...any) Result {
	return Result{Level: Fail, Found: fmt.Sprintf(found, args...), Remedy: remedy}
}

// Unread returns the result of a failed read. A missing permission of this user is only a warning: the installation may
// be fine.
func Unread(what string, err error) Result {
	if apierrors.IsForbidden(err) {
		r := Warned("run the command as a user with permission to read this", "cannot read %s: %v", what, err)
		r.blind = true
		return r
	}
	return Failed("check that the API server is healthy, then run the command again", "cannot read %s: %v", what, err)
}

// shown is how many lines of a group of details a result has.
const shown = 5

// With returns the result with details: of each group, the first lines, and how many more there are.
func (r Result) With(groups ...[]string) Result {
	r.Details = nil
	for _, lines := range groups {
		if len(lines) > shown+1 {
			lines = append(lines[:shown:shown], fmt.Sprintf("and %d more", len(lines)-shown))
		}
		r.Details = append(r.Details, lines...)
	}
	return r
}

// Unmet returns why a condition is not true; empty if it is true.
func Unmet(conditions []metav1.Condition, kind string) string {
	switch is := meta.FindStatusCondition(conditions, kind); {
	case is == nil:
		return fmt.Sprintf("not %s yet", kind)
	case is.Status != metav1.ConditionTrue:
		return fmt.Sprintf("not %s: %s: %s", kind, is.Reason, is.Message)
	}
	return ""
}

// All begins a result about all objects of a kind, as in "all 3 policies are".
func All(n int, one, many string) string {
	if n == 1 {
		return "the only " + one + " is"
	}
	return fmt.Sprintf("all %d %s are", n, many)
}
