package notice

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// An Event about the same errors of the same object is written once. Names and messages of any length are accepted.
func TestRecord(t *testing.T) {
	api := fake.NewClientset()
	long := strings.Repeat("a.", 126) + "a"
	volume := corev1.ObjectReference{Kind: "PersistentVolume", Name: long, UID: "1"}
	again := volume
	again.UID = "2"
	for _, tc := range []struct {
		of      corev1.ObjectReference
		message string
		events  int
	}{
		{volume, "bad", 1}, {volume, "bad", 1}, {volume, "worse", 2}, {again, "bad", 3}, {again, strings.Repeat("x", 5000), 4},
	} {
		if err := Record(t.Context(), api.CoreV1(), tc.of, tc.message, time.Now()); err != nil {
			t.Fatal(err)
		}
		list, err := api.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != tc.events {
			t.Fatalf("%d Events, %v, want %d", len(list.Items), err, tc.events)
		}
		for i := range list.Items {
			e := &list.Items[i]
			if problems := validation.IsDNS1123Subdomain(e.Name); len(problems) > 0 || len(e.Message) > 1024 || e.Reason != "InvalidPersistentVolume" {
				t.Errorf("%q is invalid: %v; %d bytes; %s", e.Name, problems, len(e.Message), e.Reason)
			}
		}
	}
}

// A namespace that is being deleted takes no Events, which is not a failure; everything else is.
func TestRecordFails(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "x", errors.New("terminating"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		err  error
		fail bool
	}{
		"terminating":  {terminating, false},
		"no namespace": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"), false},
		"forbidden":    {apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "x", errors.New("quota")), true},
		"unavailable":  {apierrors.NewInternalError(errors.New("x")), true},
	} {
		api := fake.NewClientset()
		api.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
		err := Record(t.Context(), api.CoreV1(), corev1.ObjectReference{Namespace: "x", Kind: "Service", Name: "web"}, "bad", time.Now())
		if (err != nil) != tc.fail {
			t.Errorf("%s: %v", name, err)
		}
	}
}
