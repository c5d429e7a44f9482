package app

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/lookup"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/admission"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/persistentvolumeclaim"
)

// hanging is a cloud that knows one volume type and then stops responding.
type hanging struct{ calls atomic.Int32 }

func (h *hanging) VolumeTypes(
	ctx context.Context, _ cloudapi.ListOptions,
) (*cloudv1.List[cloudv1.VolumeType], error) {
	if h.calls.Add(1) > 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &cloudv1.List[cloudv1.VolumeType]{
		Items: []cloudv1.VolumeType{{Object: cloudv1.Object{Name: "ssd"}, MaxSizeGiB: 100, StepGiB: 10}},
	}, nil
}

func (h *hanging) Volume(ctx context.Context, _ string) (*cloudv1.Volume, error) {
	h.calls.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// storageFacts returns what admission knows about volumes, with one StorageClass, and its API and cloud.
func storageFacts(t *testing.T) (*facts, *fake.Clientset, *hanging) {
	t.Helper()
	class, gone := builder.StorageClass(), builder.StorageClass()
	class.Name, gone.Name = "ssd", "floppy"
	class.Parameters, gone.Parameters = map[string]string{"type": "ssd"}, map[string]string{"type": "floppy"}
	api, cloud := fake.NewClientset(class, gone), &hanging{}
	known := newStorageFacts(api)
	known.cloud = lookup.New(lookup.Options{Cloud: cloud})
	for _, run := range []func(context.Context){known.classes.run, known.cloud.Run} {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { run(ctx); close(done) }()
		t.Cleanup(func() { stop(); <-done })
	}
	typesKnown := func() bool { _, err := known.cloud.VolumeType("ssd"); return err == nil }
	if !cache.WaitForCacheSync(t.Context().Done(), known.classes.hasSynced, typesKnown) {
		t.Fatal("the caches did not sync")
	}
	return known, api, cloud
}

func reviewOf(t *testing.T, objects ...*corev1.PersistentVolumeClaim) *admissionv1.AdmissionRequest {
	t.Helper()
	request := &admissionv1.AdmissionRequest{Operation: admissionv1.Create}
	for i, pvc := range objects {
		raw, err := json.Marshal(pvc)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			request.Object.Raw = raw
		} else {
			request.Operation, request.OldObject = admissionv1.Update, runtime.RawExtension{Raw: raw}
		}
	}
	return request
}

// New claims are answered from memory: whatever they name, neither the cloud nor the API server is called.
func TestNewClaimsCostNoCall(t *testing.T) {
	known, api, cloud := storageFacts(t)
	api.ClearActions()
	cloud.calls.Store(1)
	m := persistentvolumeclaim.NewMutator(persistentvolumeclaim.Options{Classes: known.classes, Volumes: known})
	for i := range 100 {
		for class, warned := range map[string]string{
			"ssd": "pvc-created-over-maximum", "floppy": "pvc-type-unknown", fmt.Sprintf("class-%d", i): "",
		} {
			pvc := builder.PersistentVolumeClaim(builder.ClaimClass(class), builder.Request("101Gi"))
			response, err := admission.Call(t.Context(), t, m, reviewOf(t, pvc))
			if err != nil || !response.Allowed || response.AuditAnnotations["warned"] != warned {
				t.Fatalf("class %s: %+v, %v; want the warning %q", class, response, err, warned)
			}
		}
	}
	if got := cloud.calls.Load() - 1; got != 0 {
		t.Errorf("%d calls of the cloud", got)
	}
	if got := api.Actions(); len(got) > 0 {
		t.Errorf("calls of the API server: %v", got)
	}
}

// Growing claims read their volume, but no caller can multiply these reads.
func TestGrowingClaimsHaveABudget(t *testing.T) {
	known, api, cloud := storageFacts(t)
	api.ClearActions()
	cloud.calls.Store(1)
	var v webhook.Admitter = persistentvolumeclaim.NewValidator(persistentvolumeclaim.Options{
		Classes: known.classes, Volumes: known,
	})
	began := time.Now()
	for i := range 10 * readsAtOnce {
		before := builder.PersistentVolumeClaim(builder.ClaimClass("ssd"), builder.Request("10Gi"))
		before.Spec.VolumeName = fmt.Sprintf("pv-%d", i)
		after := before.DeepCopy()
		after.Spec.Resources = builder.PersistentVolumeClaim(builder.Request("90Gi")).Spec.Resources
		response, err := admission.Call(t.Context(), t, v, reviewOf(t, after, before))
		if err != nil || !response.Allowed {
			t.Fatalf("%+v, %v", response, err)
		}
	}
	// The budget grows while the test runs.
	most := readsAtOnce + int(time.Since(began).Seconds()*readsPerSecond) + 1
	if got := len(api.Actions()); got < readsAtOnce || got > most {
		t.Errorf("%d calls of the API server, want at most %d", got, most)
	}
	if got := cloud.calls.Load() - 1; got != 0 {
		t.Errorf("%d calls of the cloud for volumes that are not its own", got)
	}
}
