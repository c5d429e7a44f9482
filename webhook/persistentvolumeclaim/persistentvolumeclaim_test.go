package persistentvolumeclaim_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quaymaster.dev/internal/rules/volume"
	"quaymaster.dev/test/harness/admission"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/persistentvolumeclaim"
)

// claim is a bound PersistentVolumeClaim of class fast in JSON, as the API server sends it.
type claim struct{ size, class, phase, capacity, volumeName, deletionTimestamp string }

func (c claim) json() []byte {
	metadata := map[string]any{"name": "data", "namespace": "shop"}
	if c.deletionTimestamp != "" {
		metadata["deletionTimestamp"] = c.deletionTimestamp
	}
	spec := map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": or(c.size, "10Gi")}}}
	if c.class != "none" {
		spec["storageClassName"] = or(c.class, "fast")
	}
	if c.volumeName != "none" {
		spec["volumeName"] = or(c.volumeName, "pv-1")
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec,
		"status": map[string]any{
			"phase": or(c.phase, "Bound"), "capacity": map[string]any{"storage": or(c.capacity, "10Gi")},
		},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func create(c claim) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: c.json()}}
}

func update(from, to claim) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: to.json()},
		OldObject: runtime.RawExtension{Raw: from.json()},
	}
}

// facts implements Classes and Volumes. Each class of the cloud's driver refers to the volume type of the same name.
type facts struct {
	// outage holds errors by what is unavailable: class, type or volume.
	outage map[string]error
	// lookups are the lookups so far.
	lookups []string
	// unbounded holds the lookups without a deadline.
	unbounded []string
}

func (f *facts) lookUp(what, name string) error {
	f.lookups = append(f.lookups, what+" "+name)
	return f.outage[what]
}

func (f *facts) StorageClass(name string) (*storagev1.StorageClass, error) {
	if err := f.lookUp("class", name); err != nil {
		return nil, err
	}
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: volume.Driver,
		Parameters: map[string]string{"type": name}, AllowVolumeExpansion: new(true),
	}
	switch name {
	case "fast", "offline", "unknown", "invalid":
	case "fixed":
		class.AllowVolumeExpansion = nil
	case "untyped":
		class.Parameters = nil
	case "foreign":
		class.Provisioner = "csi.example.com"
	default:
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "storage.k8s.io", Resource: "storageclasses"}, name)
	}
	return class, nil
}

func (f *facts) VolumeType(name string) (*volume.Type, error) {
	if err := f.lookUp("type", name); err != nil {
		return nil, err
	}
	switch name {
	case "unknown":
		return nil, nil
	case "invalid":
		return &volume.Type{Name: name}, nil
	}
	return &volume.Type{Name: name, MaxSizeGiB: 100, StepGiB: 10, OnlineExpansion: name != "offline"}, nil
}

func (f *facts) Volume(ctx context.Context, name string) (*volume.Attachment, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		f.unbounded = append(f.unbounded, name)
	}
	err := f.lookUp("volume", name)
	if errors.Is(err, context.DeadlineExceeded) {
		<-ctx.Done()
	}
	if err != nil {
		return nil, err
	}
	switch name {
	case "pv-foreign":
		return nil, nil
	case "pv-free":
		return &volume.Attachment{VolumeID: "vol-1"}, nil
	}
	return &volume.Attachment{VolumeID: "vol-1", Instance: "i-7"}, nil
}

// expectation is a request with its expected response and lookups.
type expectation struct {
	request *admissionv1.AdmissionRequest
	// outage holds errors by what is unavailable.
	outage map[string]error
	// denied is true if the object must be denied.
	denied bool
	// audit holds the expected audit annotations.
	audit map[string]string
	// lookups are the expected lookups.
	lookups []string
}

func (e expectation) check(t *testing.T, newAdmitter func(persistentvolumeclaim.Options) webhook.Admitter) {
	t.Helper()
	f := &facts{outage: e.outage}
	var got *admissionv1.AdmissionResponse
	var err error
	synctest.Test(t, func(t *testing.T) { // which does not wait for the budget of a hanging cloud
		got, err = admit(t, newAdmitter(persistentvolumeclaim.Options{Classes: f, Volumes: f}), e.request)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Allowed == e.denied || got.Patch != nil {
		t.Errorf("allowed %t with patch %s", got.Allowed, got.Patch)
	}
	if diff := cmp.Diff(e.audit, got.AuditAnnotations); diff != "" {
		t.Errorf("audit annotations (-want +got):\n%s", diff)
	}
	for key, n := range map[string]int{"warned": len(got.Warnings), "denied": len(causes(got))} {
		if ids := strings.FieldsFunc(e.audit[key], func(r rune) bool { return r == ',' }); len(ids) != n {
			t.Errorf("%d messages of findings %q: %+v", n, ids, got)
		}
	}
	if e.denied && got.Result.Code != 422 {
		t.Errorf("denied with %+v", got.Result)
	}
	if diff := cmp.Diff(e.lookups, f.lookups); diff != "" {
		t.Errorf("lookups (-want +got):\n%s", diff)
	}
	if f.unbounded != nil {
		t.Errorf("volumes %q were looked up without a deadline", f.unbounded)
	}
}

// causes returns the causes of a denial.
func causes(response *admissionv1.AdmissionResponse) []metav1.StatusCause {
	if response.Allowed {
		return nil
	}
	return response.Result.Details.Causes
}

func warnedBy(ids string) map[string]string { return map[string]string{"warned": ids} }

func deniedBy(ids string) map[string]string { return map[string]string{"denied": ids} }

// admit returns the response to a request.
func admit(t testing.TB, by webhook.Admitter, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	t.Helper()
	return admission.Call(t.Context(), t, by, request)
}
