package volumes_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
)

// What docs/operations/client-authentication.md says that every client learns that reaches the port of the webhooks,
// and that it changes nothing.
func TestStrangersLearnVolumes(t *testing.T) {
	ask := func(path, kind, namespace string, oldObject, object any) string {
		t.Helper()
		r, err := shared.webhook.Ask(t.Context(), path, corev1.SchemeGroupVersion.WithKind(kind), strings.ToLower(kind)+"s",
			namespace, oldObject, object)
		if err != nil {
			t.Fatal(err)
		}
		parts := append([]string{string(r.Patch)}, r.Warnings...)
		if r.Result != nil {
			parts = append(parts, r.Result.Message)
		}
		return strings.Join(parts, "\n")
	}
	pv := volume(unique("asked"), builder.VolumeHandle(fresh(t)))
	unknown := volume(unique("asked"), builder.VolumeHandle("vol-unknown"))
	existing := bound(t, "archive", "vol-archive-1", "500Gi")
	grow := func(class, from, to string) string {
		before, after := claim(existing, class, from), claim(existing, class, to)
		for _, pvc := range []*corev1.PersistentVolumeClaim{before, after} {
			pvc.Spec.VolumeName, pvc.Status.Phase = existing, corev1.ClaimBound
		}
		return ask("/mutate-persistentvolumeclaim", "PersistentVolumeClaim", namespace, before, after) +
			ask("/validate-persistentvolumeclaim", "PersistentVolumeClaim", namespace, before, after)
	}
	for name, test := range map[string]struct{ answer, learns string }{
		"the zone of a volume":                       {ask("/mutate-persistentvolume", "PersistentVolume", "", nil, pv), "eu-1b"},
		"that there is no such volume":               {ask("/mutate-persistentvolume", "PersistentVolume", "", nil, unknown), "Not found"},
		"that there is no such StorageClass":         {grow("absent", "1Gi", "2Gi"), `StorageClass "absent" does not exist`},
		"that claims of a StorageClass cannot grow":  {grow("fixed", "1Gi", "2Gi"), `StorageClass "fixed" must have allowVolumeExpansion`},
		"the type of a StorageClass and its maximum": {grow("ssd", "1Gi", "2Ti"), `at most 1024Gi, the maximum of volume type "ssd"`},
		"the machine that a volume is attached to":   {grow("archive", "500Gi", "501Gi"), `volume "vol-archive-1" is attached to instance "i-node-3"`},
	} {
		if !strings.Contains(test.answer, test.learns) {
			t.Errorf("%s: the answer lacks %q: %s", name, test.learns, test.answer)
		}
	}
	for _, pv := range []*corev1.PersistentVolume{pv, unknown} {
		if err := shared.Client.Get(t.Context(), client.ObjectKeyFromObject(pv), &corev1.PersistentVolume{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s was created: %v", pv.Name, err)
		}
	}
}
