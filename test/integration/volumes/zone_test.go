package volumes_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

const (
	zone   = corev1.LabelTopologyZone
	region = corev1.LabelTopologyRegion
)

// labels adds labels to the PersistentVolume.
func labels(pairs map[string]string) builder.PersistentVolumeOption {
	return func(pv *corev1.PersistentVolume) { pv.Labels = maps.Clone(pairs) }
}

// terms adds required node affinity to the PersistentVolume.
func terms(list ...[]corev1.NodeSelectorRequirement) builder.PersistentVolumeOption {
	return func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = affinity(list...) }
}

func affinity(list ...[]corev1.NodeSelectorRequirement) *corev1.VolumeNodeAffinity {
	selector := &corev1.NodeSelector{}
	for _, requirements := range list {
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: requirements})
	}
	return &corev1.VolumeNodeAffinity{Required: selector}
}

// all returns a term.
func all(requirements ...corev1.NodeSelectorRequirement) []corev1.NodeSelectorRequirement {
	return requirements
}

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// provisioned marks the PersistentVolume as created by a provisioner.
func provisioned(pv *corev1.PersistentVolume) {
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, "pv.kubernetes.io/provisioned-by", pv.Spec.CSI.Driver)
}

var ofData1 = map[string]string{region: "eu-1", zone: "eu-1a"}

func TestZones(t *testing.T) {
	rights(t)
	inA := all(in(region, "eu-1"), in(zone, "eu-1a"))
	tests := map[string]struct {
		options  []builder.PersistentVolumeOption
		labels   map[string]string
		affinity *corev1.VolumeNodeAffinity
		warnings string
	}{
		"nothing": {nil, ofData1, affinity(inA), ""},
		"several zones": {
			options:  []builder.PersistentVolumeOption{builder.VolumeHandle("vol-shared-1")},
			labels:   map[string]string{region: "eu-1", zone: "eu-1a__eu-1b"},
			affinity: affinity(all(in(region, "eu-1"), in(zone, "eu-1a", "eu-1b"))),
		},
		"two terms": {
			options:  []builder.PersistentVolumeOption{terms(all(in("rack", "r1")), all(in("rack", "r2"), in("gpu", "no")))},
			labels:   ofData1,
			affinity: affinity(all(in("rack", "r1"), inA[0], inA[1]), all(in("rack", "r2"), in("gpu", "no"), inA[0], inA[1])),
		},
		"own affinity of a zone": {
			options:  []builder.PersistentVolumeOption{terms(all(in("rack", "r1")), all(in(zone, "eu-1a", "eu-1c")))},
			labels:   ofData1,
			affinity: affinity(all(in("rack", "r1")), all(in(zone, "eu-1a", "eu-1c"))),
		},
		"own labels": {
			options:  []builder.PersistentVolumeOption{labels(map[string]string{zone: "eu-1a", "app": "web"})},
			labels:   map[string]string{region: "eu-1", zone: "eu-1a", "app": "web"},
			affinity: affinity(inA),
		},
		"wrong label": {
			options:  []builder.PersistentVolumeOption{labels(map[string]string{zone: "eu-1c"})},
			labels:   ofData1,
			affinity: affinity(inA),
			warnings: "Warning: metadata.labels[topology.kubernetes.io/zone]: must match the cloud; " +
				"the value was replaced by \"eu-1a\"; correct the manifest, or remove the label from it\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pv := volume(unique("zones"), test.options...)
			out := admin(t, pv, "create", "--output", "json")
			if out.Code != 0 || out.Stderr != test.warnings {
				t.Fatalf("exit code %d, kubectl printed %q, want %q", out.Code, out.Stderr, test.warnings)
			}
			got := &corev1.PersistentVolume{}
			if err := json.Unmarshal([]byte(out.Stdout), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.labels, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.affinity, got.Spec.NodeAffinity); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
		})
	}
}

// The cloud has no such volume, but it is not queried.
func TestProvisionersAreTrusted(t *testing.T) {
	rights(t)
	const path = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions"
	tests := map[string]struct {
		zone, region string
		// warnings are those of the API server itself.
		warnings []string
	}{
		"labels": {zone, region, nil},
		"beta labels": {corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, []string{
			path + `[0].key: failure-domain.beta.kubernetes.io/region is deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
			path + `[1].key: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			id := unique("vol-unasked")
			given := map[string]string{test.region: "eu-1", test.zone: "eu-1b__eu-1a"}
			pv := volume(unique("trusted"), builder.VolumeHandle(id), provisioned, labels(given))
			if diff := cmp.Diff(test.warnings, create(t, pv)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(given, pv.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			want := all(in(test.region, "eu-1"), in(test.zone, "eu-1a", "eu-1b"))
			if diff := cmp.Diff(affinity(want), pv.Spec.NodeAffinity); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
			if n := asked(t, id); n != 0 {
				t.Errorf("the cloud was asked %d times", n)
			}
		})
	}
}

func TestUnknownVolumesAreRefused(t *testing.T) {
	rights(t)
	for _, verb := range []string{"create", "apply"} {
		t.Run(verb, func(t *testing.T) {
			pv := volume(unique("unknown"), builder.VolumeHandle("vol-unknown"))
			want := env.Output{Code: 1, Stderr: fmt.Sprintf("The PersistentVolume %q is invalid: spec.csi.volumeHandle: "+
				"Not found: \"vol-unknown\": must be the id of an existing volume of the cloud; "+
				"create the volume first, or correct the id\n", pv.Name)}
			if diff := cmp.Diff(want, admin(t, pv, verb)); diff != "" {
				t.Errorf("kubectl (-want +got):\n%s", diff)
			}
			err := shared.Client.Get(t.Context(), client.ObjectKeyFromObject(pv), &corev1.PersistentVolume{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("something was created: %v", err)
			}
		})
	}
}

func TestDryRun(t *testing.T) {
	rights(t)
	id := fresh(t)
	pv := volume(unique("dry"), builder.VolumeHandle(id), labels(map[string]string{zone: "eu-1c"}))
	if heard := create(t, pv, client.DryRunAll); len(heard) != 1 {
		t.Errorf("warnings %q, want one", heard)
	}
	if diff := cmp.Diff(map[string]string{region: "eu-1", zone: "eu-1b"}, pv.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(affinity(all(in(region, "eu-1"), in(zone, "eu-1b"))), pv.Spec.NodeAffinity); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
	if n := asked(t, id); n != 1 {
		t.Errorf("the cloud was asked %d times, want once", n)
	}
	err := shared.Client.Get(t.Context(), client.ObjectKeyFromObject(pv), &corev1.PersistentVolume{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("something was created: %v", err)
	}
}

// Applying the same manifest again, as pipelines do, changes nothing.
func TestApplyAgain(t *testing.T) {
	rights(t)
	own := terms(all(in("disk", "fast")), all(in("disk", "huge")))
	tests := map[string]struct {
		first, again []string
		option       builder.PersistentVolumeOption
		done         string
	}{
		"client-side": {[]string{"apply"}, []string{"apply"}, labels(nil), "unchanged"},
		"server-side": {[]string{"apply", "--server-side"}, []string{"apply", "--server-side"}, labels(nil), "serverside-applied"},
		// Lists are applied as a whole, so additions to them are preserved.
		"client-side, with affinity": {[]string{"apply"}, []string{"apply"}, own, "configured"},
		"server-side, with affinity": {[]string{"apply", "--server-side"}, []string{"apply", "--server-side"}, own, "serverside-applied"},
		"replaced":                   {[]string{"create"}, []string{"replace"}, labels(ofData1), "replaced"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pv := volume(unique("applied"), test.option)
			if out := admin(t, pv, test.first...); out.Code != 0 {
				t.Fatal(out.Stderr)
			}
			before := get(t, pv.Name)
			want := env.Output{Stdout: fmt.Sprintf("persistentvolume/%s %s\n", pv.Name, test.done)}
			if diff := cmp.Diff(want, admin(t, pv, test.again...)); diff != "" {
				t.Errorf("kubectl (-want +got):\n%s", diff)
			}
			after := get(t, pv.Name)
			if diff := cmp.Diff(before.Labels, after.Labels); diff != "" {
				t.Errorf("labels (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
				t.Errorf("spec (-before +after):\n%s", diff)
			}
		})
	}
}

func get(t *testing.T, name string) *corev1.PersistentVolume {
	t.Helper()
	pv := &corev1.PersistentVolume{}
	if err := shared.Client.Get(t.Context(), client.ObjectKey{Name: name}, pv); err != nil {
		t.Fatal(err)
	}
	return pv
}
