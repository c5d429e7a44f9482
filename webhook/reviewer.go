package webhook

import (
	"context"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// DefaultBudget is how long a review may wait for what only others know, such as the cloud: it leaves a second of the three that
// the API server waits.
const DefaultBudget = 2 * time.Second

// Reviewer judges admission requests of one resource. It must heed the deadline of the context.
type Reviewer interface {
	// Review returns a response whose UID the handler fills in. An error means that there is no verdict: a MalformedError is
	// answered with 400, any other with 5xx.
	Review(ctx context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)
}

// MalformedError says that the request itself cannot be read, which is the caller's fault and not that of the object's author.
type MalformedError struct {
	// Problem says in one line what is wrong.
	Problem string
}

func (e *MalformedError) Error() string { return e.Problem }
