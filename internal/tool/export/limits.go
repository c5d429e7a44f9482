package export

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/rules/review"
)

// limits bound the work of the API server: evaluating the checks on a Service takes time in proportion to these lists,
// tens of microseconds an element. Like the webhooks, the policies refuse a Service beyond them without evaluating
// anything else. They count all annotations, because to look at each is what takes the time.
var limits = []struct {
	list, field, what string
	most              int
}{
	{annotations, "metadata.annotations", "annotations", review.MaxAnnotations},
	{"object.spec.?ports.orValue([])", "spec.ports", "ports", review.MaxListed},
}

// tooLarge returns an expression that is true if the Service is beyond a limit.
func tooLarge() string {
	var all []string
	for _, l := range limits {
		all = append(all, fmt.Sprintf("size(%s) > %d", l.list, l.most))
	}
	return strings.Join(all, " || ")
}

// changedAtAll is true unless a request leaves alone what is validated: what is not validated could hide any change.
const changedAtAll = "(oldObject == null || object.metadata.?annotations != oldObject.metadata.?annotations || " +
	"object.spec != oldObject.spec)"

// limitValidations returns the validations of the limits.
func limitValidations() []admissionregistrationv1.Validation {
	var all []admissionregistrationv1.Validation
	for _, l := range limits {
		all = append(all, admissionregistrationv1.Validation{
			Expression: fmt.Sprintf("size(%s) <= %d", l.list, l.most),
			Message: fmt.Sprintf("%s: must have at most %d %s; there are more; remove some: a Service with more is not validated",
				l.field, l.most, l.what),
			Reason: new(metav1.StatusReasonInvalid),
		})
	}
	return all
}
