package inspect

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"quaymaster.dev/webhook/service"
)

func TestProbeWebhooks(t *testing.T) {
	path := field.NewPath("metadata", "annotations")
	invalid := func(key string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "x", field.ErrorList{field.Invalid(path.Key(key), "x", "must not be set")})
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "x", errors.New("no rights yet"))
	for name, tc := range map[string]struct {
		// answers are the errors that the API server returns; the last one repeats.
		answers []error
		err     string
	}{
		"denied":       {answers: []error{invalid(service.AnnotationProbe)}},
		"after a time": {answers: []error{forbidden, errors.New("connection refused"), nil, invalid(service.AnnotationProbe)}},
		"admitted":     {answers: []error{nil}, err: "an invalid Service was admitted in namespace shop"},
		"denied by another webhook": {
			answers: []error{invalid("example.com/owner")}, err: "create an invalid Service in namespace shop as a dry run: ",
		},
		"no rights": {answers: []error{forbidden}, err: "giving up after 50ms: "},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientset()
			calls := 0
			api.PrependReactor("create", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
				calls++
				svc := action.(clienttesting.CreateActionImpl).GetObject()
				return true, svc, tc.answers[min(calls, len(tc.answers))-1]
			})
			var out bytes.Buffer
			p := probe{api: api, out: &out, poll: time.Millisecond, wait: 50 * time.Millisecond}
			err := p.repeat(t.Context(), "denied", func(ctx context.Context) error { return p.webhooks(ctx, "shop", "c") })
			checkProbe(t, out.String(), err, "denied\n", tc.err)
		})
	}
}

func TestProbeLeader(t *testing.T) {
	lease := func(holder *string) *coordinationv1.Lease {
		now := metav1.NewMicroTime(time.Now())
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ccm"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: holder, LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &now},
		}
	}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		err     string
	}{
		"held":     {objects: []runtime.Object{lease(new("pod-1"))}},
		"released": {objects: []runtime.Object{lease(new(""))}, err: "the lease kube-system/ccm is not held"},
		"missing":  {err: "kube-system/ccm"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			api := fake.NewClientset(tc.objects...)
			api.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &authenticationv1.SelfSubjectReview{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now()}}, nil
			})
			p := probe{api: api, out: &out, poll: time.Millisecond, wait: 20 * time.Millisecond}
			err := p.repeat(t.Context(), "held", func(ctx context.Context) error { return p.leader(ctx, "kube-system/ccm") })
			checkProbe(t, out.String(), err, "held\n", tc.err)
		})
	}
}

// checkProbe checks that a probe failed with an error that contains want or, if that is empty, printed its line.
func checkProbe(t *testing.T, out string, err error, line, want string) {
	t.Helper()
	if want != "" {
		line = ""
	}
	if out != line || (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("printed %q, error %v; want %q, %q", out, err, line, want)
	}
}
