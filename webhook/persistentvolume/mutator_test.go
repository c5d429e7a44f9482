package persistentvolume_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cloudprovider "k8s.io/cloud-provider"

	"quaymaster.dev/internal/lookup"
	"quaymaster.dev/test/harness/admission"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/persistentvolume"
)

const (
	zone   = "topology.kubernetes.io/zone"
	region = "topology.kubernetes.io/region"
	// both holds the requirements of vol-data-1.
	both = `{"key":"` + region + `","operator":"In","values":["eu-1"]},{"key":"` + zone +
		`","operator":"In","values":["eu-1a"]}`
	// labeled is the audit annotation for vol-data-1.
	labeled = region + "=eu-1," + zone + "=eu-1a"
)

// labeler is a fake cloud.
type labeler func(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error)

func (l labeler) GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	return l(ctx, pv)
}

// known is the labeler of a cloud where every volume is in eu-1a.
func known(context.Context, *corev1.PersistentVolume) (map[string]string, error) {
	return map[string]string{zone: "eu-1a", region: "eu-1"}, nil
}

// manifest is a PersistentVolume in JSON, as the API server sends it.
type manifest struct{ metadata, driver, affinity string }

func (m manifest) json() []byte {
	if m.driver == "" {
		m.driver = "csi.mycloud.io"
	}
	spec := map[string]json.RawMessage{
		"capacity":    json.RawMessage(`{"storage":"20Gi"}`),
		"accessModes": json.RawMessage(`["ReadWriteOnce"]`),
		"csi":         json.RawMessage(fmt.Sprintf(`{"driver":%q,"volumeHandle":"vol-data-1"}`, m.driver)),
	}
	if m.affinity != "" {
		spec["nodeAffinity"] = json.RawMessage(m.affinity)
	}
	if m.metadata == "" {
		m.metadata = `{"name":"data"}`
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolume", "metadata": json.RawMessage(m.metadata), "spec": spec,
	})
	if err != nil {
		panic(err)
	}
	return raw
}

func create(m manifest) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: m.json()}}
}

func mutator(l cloudprovider.PVLabeler) webhook.Admitter {
	return persistentvolume.NewMutator(persistentvolume.MutatorOptions{Labeler: l})
}

func TestMutatorPatches(t *testing.T) {
	const (
		mapOfLabels = `{"op":"add","path":"/metadata/labels","value":{"` + region + `":"eu-1","` + zone + `":"eu-1a"}}`
		addRegion   = `{"op":"add","path":"/metadata/labels/topology.kubernetes.io~1region","value":"eu-1"}`
		addZone     = `{"op":"add","path":"/metadata/labels/topology.kubernetes.io~1zone","value":"eu-1a"}`
		allAffinity = `{"op":"add","path":"/spec/nodeAffinity","value":{"required":{"nodeSelectorTerms":[` +
			`{"matchExpressions":[` + both + `]}]}}}`
		rack  = `{"key":"rack","operator":"In","values":["1"]}`
		terms = "/spec/nodeAffinity/required/nodeSelectorTerms"
	)
	warned := `metadata.labels[topology.kubernetes.io/zone]: must match the cloud; the value was replaced by "eu-1a"; ` +
		`correct the manifest, or remove the label from it`
	for name, tc := range map[string]struct {
		manifest manifest
		patch    string
		audit    map[string]string
		warnings []string
	}{
		"no labels, no affinity": {patch: mapOfLabels + "," + allAffinity, audit: map[string]string{"labeled": labeled}},
		"unrelated labels": {
			manifest: manifest{metadata: `{"name":"data","labels":{"team":"a"}}`},
			patch:    addRegion + "," + addZone + "," + allAffinity, audit: map[string]string{"labeled": labeled},
		},
		"another value": {
			manifest: manifest{metadata: `{"name":"data","labels":{"` + zone + `":"eu-1b","` + region + `":"eu-1"}}`},
			patch:    addZone + "," + allAffinity,
			audit: map[string]string{
				"labeled": zone + "=eu-1a", "warned": "pv-label-overwritten",
			}, warnings: []string{warned},
		},
		"null affinity": {
			manifest: manifest{affinity: "null"}, patch: mapOfLabels + "," + allAffinity,
			audit: map[string]string{"labeled": labeled},
		},
		"empty affinity": {
			manifest: manifest{affinity: "{}"},
			patch: mapOfLabels + `,{"op":"add","path":"/spec/nodeAffinity/required","value":{"nodeSelectorTerms":[` +
				`{"matchExpressions":[` + both + `]}]}}`,
			audit: map[string]string{"labeled": labeled},
		},
		"no terms": {
			manifest: manifest{affinity: `{"required":{"nodeSelectorTerms":null}}`},
			patch:    mapOfLabels + `,{"op":"add","path":"` + terms + `","value":[{"matchExpressions":[` + both + `]}]}`,
			audit:    map[string]string{"labeled": labeled},
		},
		"terms with and without expressions": {
			manifest: manifest{
				affinity: `{"required":{"nodeSelectorTerms":[{"matchExpressions":[` + rack + `]},{"matchFields":[` + rack + `]}]}}`,
			},
			patch: mapOfLabels +
				`,{"op":"add","path":"` + terms + `/0/matchExpressions/-","value":{"key":"` + region +
				`","operator":"In","values":["eu-1"]}}` +
				`,{"op":"add","path":"` + terms + `/0/matchExpressions/-","value":{"key":"` + zone +
				`","operator":"In","values":["eu-1a"]}}` +
				`,{"op":"add","path":"` + terms + `/1/matchExpressions","value":[` + both + `]}`,
			audit: map[string]string{"labeled": labeled},
		},
		"affinity that contains the zone": {
			manifest: manifest{
				affinity: `{"required":{"nodeSelectorTerms":[{"matchExpressions":[` + rack + `]},{"matchExpressions":[` + both +
					`]}]}}`,
			},
			patch: mapOfLabels, audit: map[string]string{"labeled": labeled},
		},
		"complete": {manifest: manifest{
			metadata: `{"name":"data","labels":{"` + zone + `":"eu-1a","` + region + `":"eu-1"}}`,
			affinity: `{"required":{"nodeSelectorTerms":[{"matchExpressions":[` + both + `]}]}}`,
		}},
		"of another driver": {manifest: manifest{driver: "csi.example.com"}},
		"being deleted":     {manifest: manifest{metadata: `{"name":"data","deletionTimestamp":"2026-01-02T03:04:05Z"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			request := create(tc.manifest)
			want := &admissionv1.AdmissionResponse{Allowed: true, AuditAnnotations: tc.audit, Warnings: tc.warnings}
			if tc.patch != "" {
				patchType := admissionv1.PatchTypeJSONPatch
				want.Patch, want.PatchType = []byte("["+tc.patch+"]"), &patchType
			}
			got := admit(t, mutator(labeler(known)), request)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			if got.Patch == nil {
				return
			}
			request.Object.Raw = admission.Apply(t, request.Object.Raw, got.Patch)
			if diff := cmp.Diff(webhook.Allow(), admit(t, mutator(labeler(known)), request)); diff != "" {
				t.Errorf("second call (-want +got):\n%s", diff)
			}
		})
	}
}

func admit(
	t *testing.T, m webhook.Admitter, request *admissionv1.AdmissionRequest,
) *admissionv1.AdmissionResponse {
	t.Helper()
	response, err := admission.Call(t.Context(), t, m, request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// The labels of a provisioner are used without querying the cloud and stay unchanged.
func TestMutatorTrustsProvisioners(t *testing.T) {
	unused := labeler(func(context.Context, *corev1.PersistentVolume) (map[string]string, error) {
		t.Error("the cloud was queried")
		return nil, nil
	})
	by := func(labels string) manifest {
		return manifest{
			metadata: `{"name":"data","annotations":{"pv.kubernetes.io/provisioned-by":"csi.mycloud.io"},"labels":{` + labels +
				`}}`,
		}
	}
	for _, l := range []cloudprovider.PVLabeler{unused, nil} {
		response := admit(t, mutator(l), create(by(`"`+zone+`":"eu-1b__eu-1a","`+region+`":"eu-1"`)))
		const want = `[{"op":"add","path":"/spec/nodeAffinity","value":{"required":{"nodeSelectorTerms":[` +
			`{"matchExpressions":[` +
			`{"key":"` + region + `","operator":"In","values":["eu-1"]},{"key":"` + zone +
			`","operator":"In","values":["eu-1a","eu-1b"]}]}]}}}]`
		if string(response.Patch) != want {
			t.Errorf("patch %s, want %s", response.Patch, want)
		}
		denied := admit(t, mutator(l), create(by(`"`+zone+`":"__eu-1a","`+region+`":"eu-1"`)))
		const message = `PersistentVolume "data" is invalid: metadata.labels[topology.kubernetes.io/zone]: Invalid value: ` +
			`"__eu-1a": ` +
			`must be non-empty zone names joined by "__"; set the volume's zones, such as "eu-1a__eu-1b", or remove the ` +
			`label to use those of the cloud`
		if denied.Allowed || denied.Result.Message != message || denied.Result.Code != http.StatusUnprocessableEntity ||
			denied.Patch != nil {
			t.Errorf("response %+v, want a denial with %s", denied, message)
		}
	}
}

// Without a cloud there are no zones to add and no warnings.
func TestMutatorWithoutCloud(t *testing.T) {
	if diff := cmp.Diff(webhook.Allow(), admit(t, mutator(nil), create(manifest{}))); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

func TestMutatorDeniesMissingVolume(t *testing.T) {
	c := cloud.Start(t, 0)
	m := mutator(lookup.New(lookup.Options{Cloud: c.Client}))
	request := create(manifest{})
	if response := admit(t, m, request); !response.Allowed || len(response.Patch) == 0 {
		t.Fatalf("response %+v for an existing volume", response)
	}
	request.Object.Raw = admission.Apply(
		t, request.Object.Raw, []byte(`[{"op":"replace","path":"/spec/csi/volumeHandle","value":"vol-none"}]`),
	)
	const text = `Not found: "vol-none": must be the id of an existing volume of the cloud; create the volume first, ` +
		`or correct the id`
	want := &admissionv1.AdmissionResponse{
		AuditAnnotations: map[string]string{"denied": "pv-volume-not-found"},
		Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Message: `PersistentVolume "data" is invalid: spec.csi.volumeHandle: ` + text,
			Details: &metav1.StatusDetails{Kind: "PersistentVolume", Name: "data", Causes: []metav1.StatusCause{
				{Type: metav1.CauseTypeFieldValueNotFound, Field: "spec.csi.volumeHandle", Message: text},
			}},
		},
	}
	if diff := cmp.Diff(want, admit(t, m, request)); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

// PersistentVolumes are admitted if the cloud does not respond, or if its response is invalid.
func TestMutatorAdmitsDuringOutage(t *testing.T) {
	for name, l := range map[string]labeler{
		"fails": func(context.Context, *corev1.PersistentVolume) (map[string]string, error) {
			return nil, errors.New("connection refused")
		},
		"hangs": func(ctx context.Context, _ *corev1.PersistentVolume) (map[string]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"returns an invalid label": func(context.Context, *corev1.PersistentVolume) (map[string]string, error) {
			return map[string]string{zone: "eu-1a__"}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := persistentvolume.NewMutator(persistentvolume.MutatorOptions{Labeler: l, Completed: true})
			want := &admissionv1.AdmissionResponse{
				Allowed: true,
				Warnings: []string{"spec.csi.volumeHandle: zone labels and node affinity were not added because the cloud did " +
					"not respond; " +
					"the controllers will add them later"},
				AuditAnnotations: map[string]string{"warned": "pv-zone-unavailable"},
			}
			synctest.Test(t, func(t *testing.T) {
				if diff := cmp.Diff(want, admit(t, m, create(manifest{}))); diff != "" {
					t.Errorf("response (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Without our controllers, no message promises that they complete the PersistentVolume.
func TestOutageWithoutControllers(t *testing.T) {
	m := persistentvolume.NewMutator(persistentvolume.MutatorOptions{
		Labeler: labeler(func(context.Context, *corev1.PersistentVolume) (map[string]string, error) {
			return nil, errors.New("connection refused")
		}),
	})
	want := []string{"spec.csi.volumeHandle: zone labels and node affinity were not added because the cloud did not " +
		"respond; add them, or create the PersistentVolume again"}
	if diff := cmp.Diff(want, admit(t, m, create(manifest{})).Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// A hanging cloud delays the response less than the three seconds that an API server waits.
func TestMutatorIsInTime(t *testing.T) {
	c := cloud.Start(t, 0)
	c.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	start := time.Now()
	response := admit(t, mutator(lookup.New(lookup.Options{Cloud: c.Client})), create(manifest{}))
	if elapsed := time.Since(start); elapsed > 2500*time.Millisecond || !response.Allowed || len(response.Warnings) != 1 {
		t.Errorf("after %s: %+v", elapsed, response)
	}
}

// An update that would remove the added affinity keeps it, without querying the cloud. Other changes are the user's.
func TestMutatorCarriesAffinityOver(t *testing.T) {
	const own = `{"key":"disk","operator":"In","values":["fast"]}`
	stored := manifest{
		metadata: `{"name":"data","labels":{"` + zone + `":"eu-1a","` + region + `":"eu-1"}}`,
		affinity: `{"required":{"nodeSelectorTerms":[{"matchExpressions":[` + own + "," + both + `]}]}}`,
	}
	tests := map[string]struct {
		applied manifest
		patch   string
	}{
		"applied again": {
			manifest{affinity: `{"required":{"nodeSelectorTerms":[{"matchExpressions":[` + own + `]}]}}`},
			`[{"op":"add","path":"/spec/nodeAffinity","value":` + stored.affinity + `}]`,
		},
		"own change": {
			manifest{affinity: `{"required":{"nodeSelectorTerms":[{"matchExpressions":[` + both + `]}]}}`}, "",
		},
		"unchanged":      {stored, ""},
		"another driver": {manifest{driver: "csi.example.com"}, ""},
		"being deleted":  {manifest{metadata: `{"name":"data","deletionTimestamp":"2026-01-02T03:04:05Z"}`}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			request := create(test.applied)
			request.Operation, request.OldObject.Raw = admissionv1.Update, stored.json()
			got := admit(t, mutator(nil), request)
			if string(got.Patch) != test.patch || !got.Allowed || got.Warnings != nil {
				t.Errorf("got %+v with patch %s, want %s", got, got.Patch, test.patch)
			}
		})
	}
}

func TestMutatorIgnoresDeletions(t *testing.T) {
	request := create(manifest{})
	request.Operation = admissionv1.Delete
	if diff := cmp.Diff(webhook.Allow(), admit(t, mutator(labeler(known)), request)); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}
