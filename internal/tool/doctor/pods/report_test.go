package pods

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"quaymaster.dev/internal/tool/doctor/release"
	"quaymaster.dev/test/harness/installation"
)

// podAnswer is the answer to a request that was sent to a pod.
type podAnswer struct {
	body string
	err  error
}

func (a podAnswer) DoRaw(context.Context) ([]byte, error) { return []byte(a.body), a.err }

func (a podAnswer) Stream(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(a.body)), a.err
}

// What the API server answers in place of a pod is not a report of the pod.
func TestUncertified(t *testing.T) {
	for name, tc := range map[string]struct {
		answer podAnswer
		want   string
	}{
		"not ready": {
			podAnswer{"no Secret\n", apierrors.NewInternalError(errors.New("no Secret"))},
			"; pod quay-webhook reports: no Secret",
		},
		"forbidden": {
			podAnswer{`{"kind":"Status","message":"pods \"quay-webhook\" is forbidden"}`,
				apierrors.NewForbidden(corev1.Resource("pods"), "quay-webhook", errors.New("no right"))},
			"",
		},
		"not reached": {
			podAnswer{`{"kind":"Status","message":"error trying to reach service: timeout"}`,
				apierrors.NewInternalError(errors.New("error trying to reach service: timeout"))},
			"",
		},
		"former version": {
			podAnswer{"404 page not found\n", apierrors.NewNotFound(corev1.Resource("pods"), "quay-webhook")}, "",
		},
		"ready": {podAnswer{"ok", nil}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientset()
			api.PrependProxyReactor("pods", func(clienttesting.Action) (bool, rest.ResponseWrapper, error) {
				return true, tc.answer, nil
			})
			pod := installation.Pod(release.WebhookComponent, "quay-webhook", corev1.PodStatus{PodIP: "10.0.0.1"})
			if err := api.Tracker().Add(pod); err != nil {
				t.Fatal(err)
			}
			if got := (Checks{Release: installation.New(api)}).Uncertified(t.Context()); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
