package doctor

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
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
func TestReason(t *testing.T) {
	for name, tc := range map[string]struct {
		answer podAnswer
		want   string
	}{
		"not ready": {
			podAnswer{"internal server error: no Secret", apierrors.NewInternalError(errors.New("no Secret"))},
			"; pod quay-webhook reports: no Secret",
		},
		"forbidden": {
			podAnswer{`{"kind":"Status","message":"pods \"quay-webhook\" is forbidden"}`,
				apierrors.NewForbidden(corev1.Resource("pods"), "quay-webhook", errors.New("no right"))},
			"",
		},
		"ready": {podAnswer{"ok", nil}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientset()
			api.PrependProxyReactor("pods", func(clienttesting.Action) (bool, rest.ResponseWrapper, error) {
				return true, tc.answer, nil
			})
			e := installation(api, "--cert-mode=self-signed")
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "quay-webhook", Labels: map[string]string{
				labelName: "quaymaster", labelInstance: e.Release, labelComponent: webhookComponent,
			}}, Status: corev1.PodStatus{PodIP: "10.0.0.1"}}
			if err := api.Tracker().Add(pod); err != nil {
				t.Fatal(err)
			}
			if got := e.reason(t.Context()); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
