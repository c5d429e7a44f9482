package dlb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/loadbalancer"
)

// refusal is an error that persists until the Service or the cloud is changed, or until the cloud has finished its
// work. Its text is the message of the condition and of an Event, so it must be the same on every try.
type refusal struct {
	reason, message string
	cause           error
}

func (r *refusal) Error() string { return r.message }

func (r *refusal) Unwrap() error { return r.cause }

// invalid returns the refusal of an annotation whose value only the cloud or the cluster can validate.
func invalid(key, value, problem string) error {
	path := field.NewPath("metadata", "annotations").Key(loadbalancer.Prefix + key)
	return &refusal{reason: reasonInvalid, message: field.Invalid(path, value, problem).Error()}
}

// pending returns the error for a load balancer that the cloud is still working on. It asks for a retry.
func pending(lb *cloudv1.LoadBalancer) error {
	message := fmt.Sprintf("the cloud is still working on load balancer %s", lb.ID)
	return &refusal{reason: reasonPending, message: message, cause: cloudproviderapi.NewRetryError(message, retryAfter)}
}

// namesTaken returns the refusal for a load balancer whose two possible names are both taken.
func namesTaken(err error, plain, unique string) error {
	message := fmt.Sprintf(
		"names %q and %q are taken by other load balancers; rename or delete one of them", plain, unique,
	)
	return &refusal{reason: reasonRefused, message: message, cause: err}
}

// refusals has the codes of problems that do not resolve with time.
var refusals = []string{
	cloudv1.CodeInvalid, cloudv1.CodeUnsupported, cloudv1.CodeQuotaExceeded, cloudv1.CodeForbidden, cloudv1.CodeProtected,
}

// fault returns the text of a problem, without the parts that differ between requests.
func fault(p *cloudv1.Problem) string {
	text := p.Code
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	var fields []string
	for _, f := range p.Errors {
		fields = append(fields, f.Pointer+": "+f.Detail)
	}
	if len(fields) > 0 {
		text += ": " + strings.Join(fields, "; ")
	}
	return text
}

// report writes an error that concerns the Service to its condition, and returns the error in the terms of the service
// controller.
func (b *Balancer) report(ctx context.Context, svc *corev1.Service, err error) error {
	err = explain(err)
	var refused *refusal
	if !errors.As(err, &refused) {
		return err
	}
	logger := klog.FromContext(ctx).WithValues("service", klog.KObj(svc), "reason", refused.reason)
	if refused.cause != nil {
		// The condition omits what differs between tries, such as the id of the request.
		logger = logger.WithValues("cause", refused.cause)
	}
	logger.Info("Load balancer is not what the service asks for")
	if unwritten := b.conditions.set(ctx, svc, metav1.ConditionFalse, refused.reason, refused.message); unwritten != nil {
		return fmt.Errorf("%w; %w", err, unwritten)
	}
	return err
}

// explain turns problems that do not resolve with time into refusals, and passes on the delay that the cloud asks for.
func explain(err error) error {
	var answer *cloudapi.Error
	var job *cloudapi.JobError
	switch {
	case errors.As(err, &job) && job.Job.Error != nil:
		return &refusal{reason: reasonRefused, message: "the cloud's job failed: " + fault(job.Job.Error), cause: err}
	case !errors.As(err, &answer):
		return err
	case cloudapi.HasCode(err, refusals...):
		return &refusal{
			reason: reasonRefused, message: "the cloud rejected the request: " + fault(answer.Problem), cause: err,
		}
	case answer.RetryAfter > 0:
		return fmt.Errorf("%w: %w", err, cloudproviderapi.NewRetryError("the cloud asks to retry later", answer.RetryAfter))
	}
	return err
}
