package dlb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/provider/dlb/cloudstate"
	"quaymaster.dev/provider/dlb/overview"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/holder"
)

const (
	// soon is the delay of a step that only waits for our own side.
	soon = time.Second
	// pendingPeriod is when to look again at a load balancer that the cloud is working on, in case the mirror missed the
	// end of the work.
	pendingPeriod = 30 * time.Second
	// notHolderPeriod is when to try again to write, in a cluster that may not.
	notHolderPeriod = time.Minute
)

// refusal is an error that persists until the Service or the cloud is changed. Its text is the message of the condition
// and of an Event, so it must be the same on every try.
type refusal struct {
	reason, message string
	cause           error
	// after is when to try again; 0 leaves that to the back-off of the controller.
	after time.Duration
	// problem is what the cloud says is wrong with the tree sent, or nil.
	problem *cloudv1.Problem
	// disowned is a recorded load balancer that lacks the Service's tags, or nil.
	disowned *cloudv1.LoadBalancer
}

func (r *refusal) Error() string { return r.message }

func (r *refusal) Unwrap() error { return r.cause }

// postponed is an error of something that will be known soon.
type postponed struct {
	error
	after time.Duration
	// expected is true if nothing failed, so that there is nothing to report.
	expected bool
}

// Is reports whether the error is service.ErrNotReady.
func (p *postponed) Is(target error) bool { return p.expected && target == service.ErrNotReady }

func (p *postponed) Unwrap() error { return p.error }

// invalid returns the refusal of an annotation whose value only the cloud or the cluster can validate.
func invalid(key, value, problem string) error {
	path := field.NewPath("metadata", "annotations").Key(loadbalancer.Prefix + key)
	return &refusal{reason: reasonInvalid, message: field.Invalid(path, value, problem).Error()}
}

// namesTaken returns the refusal for a load balancer whose two possible names are both taken.
func namesTaken(err error, plain, unique string) error {
	message := fmt.Sprintf(
		"names %q and %q are taken by other load balancers; rename or delete one of them; quayctl orphans lists those "+
			"without a service", plain, unique,
	)
	return &refusal{reason: reasonRefused, message: message, cause: err}
}

// failed is the refusal of a load balancer that the cloud failed to provide or to delete.
func failed(lb *cloudv1.LoadBalancer, after time.Duration) error {
	text := "no reason given"
	if lb.Fault != nil {
		text = lb.Fault.Summary()
	}
	what, problem := "provisioning", lb.Fault
	if lb.ProvisioningState == cloudv1.ProvisioningPendingDelete {
		what, problem = "deletion", nil
	}
	return &refusal{
		reason: reasonRefused, message: fmt.Sprintf("%s of load balancer %s failed: %s", what, lb.ID, text),
		after: max(after, soon), problem: problem,
	}
}

// refusals has the codes of problems that do not resolve with time alone, with what the message says first.
var refusals = map[string]string{
	cloudv1.CodeInvalid:       "the cloud rejected the request: ",
	cloudv1.CodeUnsupported:   "the cloud rejected the request: ",
	cloudv1.CodeQuotaExceeded: "the cloud rejected the request: ",
	cloudv1.CodeForbidden:     "the cloud rejected the request: ",
	cloudv1.CodeProtected:     "the cloud rejected the request: ",
	cloudv1.CodeCapacity:      "the cloud has no room for the load balancer: ",
	cloudv1.CodeLocked:        "the load balancer is locked in the cloud: ",
}

// explain turns problems that do not resolve with time into refusals.
func explain(err error) error {
	if withheld, ok := errors.AsType[*holder.RefusedError](err); ok {
		return &refusal{reason: withheld.Reason, message: withheld.Error(), cause: err, after: notHolderPeriod}
	}
	var known *refusal
	var unsent *cloudapi.PostponedError
	var answer *cloudapi.Error
	// A call that was not sent has the error of another call, perhaps for another Service, as its cause.
	if errors.As(err, &known) || errors.As(err, &unsent) || !errors.As(err, &answer) || answer.Problem == nil {
		return err
	}
	prefix, refused := refusals[answer.Problem.Code]
	if !refused {
		return err
	}
	return &refusal{
		reason: reasonRefused, message: prefix + answer.Problem.Summary(), cause: err, after: answer.RetryAfter,
		problem: answer.Problem,
	}
}

// verdict is the description of an error in the condition.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
	after           time.Duration
	// passing is true for trouble of our own or of the cloud, which says nothing about the load balancer.
	passing bool
}

// diagnose returns the description of an error that explain has explained. Messages must not differ between tries.
func diagnose(err error) verdict {
	if known, ok := errors.AsType[*refusal](err); ok {
		return verdict{status: metav1.ConditionFalse, reason: known.reason, message: known.message, after: known.after}
	}
	v := verdict{status: metav1.ConditionUnknown, reason: overview.Failing, passing: true}
	v.after = cloudapi.RetryAfter(err)
	var later *postponed
	var unsent *cloudapi.PostponedError
	var answer *cloudapi.Error
	switch {
	case errors.As(err, &later):
		v.message, v.after = later.Error(), later.after
	case errors.As(err, &unsent):
		v.message = "the cloud does not respond, or asks to wait; will retry"
	case errors.As(err, &answer):
		v.message = trouble(answer)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		v.message = "the cloud did not respond in time; will retry"
	case errors.Is(err, cloudstate.ErrDegraded):
		v.message = cloudstate.ErrDegraded.Error() + "; will retry"
	default:
		// The errors around the innermost one name ports and ids, too, which differ between tries.
		for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
			err = inner
		}
		v.message = fmt.Sprintf("the last attempt failed: %v; will retry", err)
	}
	return v
}

// trouble describes a response of the cloud that has nothing to do with the Service.
func trouble(answer *cloudapi.Error) string {
	if answer.Problem == nil {
		return fmt.Sprintf("the cloud cannot be reached: a response with status %d is not of its API; will retry",
			answer.Status)
	}
	if answer.Problem.Code == cloudv1.CodeUnauthenticated {
		return "the cloud does not accept the token of the controllers; will retry"
	}
	what := "failed to respond"
	if answer.Status < http.StatusInternalServerError && answer.Status != http.StatusTooManyRequests {
		what = "rejected the request"
	}
	return fmt.Sprintf("the cloud %s: %d %s; will retry", what, answer.Status, answer.Problem.Code)
}

// unlessRefused calls write, which sends what the words identify, unless the cloud has rejected the same for the Service
// and the pause is not over: it would be rejected again, unless something has changed in the cloud that cannot be seen.
func (b *Balancer) unlessRefused(r *round, write func() error, words ...any) error {
	raw, _ := json.Marshal(words) // trees of strings and numbers can be encoded
	uid, question, now := r.svc.UID, record.Hash(raw), b.o.Clock.Now()
	if left, err := b.refused.Left(uid, question, now); err != nil {
		return again(err, left)
	}
	err := write()
	if err == nil {
		b.refused.Forget(uid)
		return nil
	}
	if known, ok := errors.AsType[*refusal](explain(err)); ok && (known.reason == reasonRefused || known.reason == reasonInvalid) {
		b.refused.Count(r.svc, question, now)
		return again(known, b.refused.Begin(uid, known, now))
	}
	return err
}

// again returns a refusal, to be checked again after a while.
func again(err error, after time.Duration) error {
	known, ok := errors.AsType[*refusal](err)
	if !ok {
		return err
	}
	later := *known
	later.after = max(known.after, after)
	return &later
}
