package app

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRemove(t *testing.T) {
	resource := schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}
	absent := apierrors.NewNotFound(resource, "quay")
	forbidden := apierrors.NewForbidden(resource, "quay", errors.New("no rights yet"))
	for name, tc := range map[string]struct {
		// answers are the errors that the API server returns; the last one repeats.
		answers []error
		out     string
		err     string
	}{
		"exists":    {answers: []error{nil}, out: "MutatingWebhookConfiguration quay deleted\n"},
		"not found": {answers: []error{absent}, out: "MutatingWebhookConfiguration quay not found\n"},
		"after a time": {
			answers: []error{errors.New("connection refused"), forbidden, nil},
			out:     "MutatingWebhookConfiguration quay deleted\n",
		},
		"never": {answers: []error{forbidden}, err: "giving up after 50ms: "},
		"unauthorized": {
			answers: []error{apierrors.NewUnauthorized("who?")}, err: "the API server rejects the credentials",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			u := uninstall{out: &out, poll: time.Millisecond, wait: 50 * time.Millisecond}
			calls := 0
			err := u.remove(t.Context(), "MutatingWebhookConfiguration", "quay",
				func(_ context.Context, name string, _ metav1.DeleteOptions) error {
					if name != "quay" {
						t.Errorf("asked to delete %q", name)
					}
					calls++
					return tc.answers[min(calls, len(tc.answers))-1]
				})
			if out.String() != tc.out || (err != nil) != (tc.err != "") || err != nil &&
				!strings.Contains(err.Error(), tc.err) {
				t.Errorf("wrote %q, error %v; want %q, %q", out.String(), err, tc.out, tc.err)
			}
		})
	}
}
