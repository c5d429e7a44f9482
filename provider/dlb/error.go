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

// refusal is an error that stays until someone changes the Service or the cloud, or until the cloud has finished its
// work. Its text is the condition's message and ends up in an Event, so it does not change from one try to the next.
type refusal struct {
	reason, message string
	cause           error
}

func (r *refusal) Error() string { return r.message }

func (r *refusal) Unwrap() error { return r.cause }

// invalid refuses an annotation for what only the cloud or the cluster knows.
func invalid(key, value, problem string) error {
	path := field.NewPath("metadata", "annotations").Key(loadbalancer.Prefix + key)
	return &refusal{reason: reasonInvalid, message: field.Invalid(path, value, problem).Error()}
}

// pending asks to come back when the cloud has finished its work on a load balancer.
func pending(lb *cloudv1.LoadBalancer) error {
	message := fmt.Sprintf("the cloud is still at work on load balancer %s", lb.ID)
	return &refusal{reason: reasonPending, message: message, cause: cloudproviderapi.NewRetryError(message, comeBack)}
}

// namesTaken refuses to give a load balancer a third name.
func namesTaken(err error, plain, unique string) error {
	message := fmt.Sprintf("the names %s and %s are taken by other load balancers in the cloud; rename or delete one of them", plain, unique)
	return &refusal{reason: reasonRefused, message: message, cause: err}
}

// refusals are the cloud's codes for what does not pass with time.
var refusals = []string{
	cloudv1.CodeInvalid, cloudv1.CodeUnsupported, cloudv1.CodeQuotaExceeded, cloudv1.CodeForbidden, cloudv1.CodeProtected,
}

// fault tells what the cloud says of a load balancer, without what differs from one request to the next.
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

// report writes an error that is the Service's to its condition, and gives the service controller the error in terms
// that it understands.
func (b *Balancer) report(ctx context.Context, svc *corev1.Service, err error) error {
	err = explain(err)
	var refused *refusal
	if !errors.As(err, &refused) {
		return err
	}
	logger := klog.FromContext(ctx).WithValues("service", klog.KObj(svc), "reason", refused.reason)
	if refused.cause != nil {
		// The condition leaves out what differs from try to try, such as the id of the request.
		logger = logger.WithValues("cause", refused.cause)
	}
	logger.Info("Load balancer is not what the service asks for")
	if unwritten := b.conditions.set(ctx, svc, metav1.ConditionFalse, refused.reason, refused.message); unwritten != nil {
		return fmt.Errorf("%w; %w", err, unwritten)
	}
	return err
}

// explain tells a refusal of what was asked from trouble on the way, and passes on when the cloud wants to be asked
// again.
func explain(err error) error {
	var answer *cloudapi.Error
	var job *cloudapi.JobError
	switch {
	case errors.As(err, &job) && job.Job.Error != nil:
		return &refusal{reason: reasonRefused, message: "the cloud could not do it: " + fault(job.Job.Error), cause: err}
	case !errors.As(err, &answer):
		return err
	case cloudapi.HasCode(err, refusals...):
		return &refusal{reason: reasonRefused, message: "the cloud refuses it: " + fault(answer.Problem), cause: err}
	case answer.RetryAfter > 0:
		return fmt.Errorf("%w: %w", err, cloudproviderapi.NewRetryError("the cloud asks for patience", answer.RetryAfter))
	}
	return err
}
