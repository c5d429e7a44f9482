package volume_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/volume"
)

const (
	classPath     = "spec.storageClassName"
	betaClassPath = "metadata.annotations[volume.beta.kubernetes.io/storage-class]"
)

func fixed(c *storagev1.StorageClass) { c.AllowVolumeExpansion = nil }

func warning(id, path, message, remedy string) finding.Finding {
	return finding.Finding{ID: id, Severity: finding.Warning, Field: path, Message: message, Remedy: remedy}
}

func TestExplainClaim(t *testing.T) {
	unbound := warning("pvc-not-bound", "status.phase", `must be "Bound" for the claim to grow; got "Pending"`,
		"retry when the claim is bound")
	changed := func(path, from, to, remedy string) finding.Finding {
		return warning(
			"pvc-class-changed", path, `must remain "`+from+`" in an update that grows the claim; got "`+to+`"`, remedy,
		)
	}
	none := func(path string) finding.Finding {
		return warning("pvc-no-class", path, "must name a StorageClass for the claim to grow",
			"copy the data to a claim whose StorageClass has allowVolumeExpansion: true")
	}
	const keep, first = "keep the StorageClass", "set the StorageClass first, then grow the claim in a second update"
	for name, tc := range map[string]struct {
		old, new *corev1.PersistentVolumeClaim
		want     []finding.Finding
	}{
		"bound, with a class": {claim("1Gi"), claim("2Gi"), nil},
		"the new phase is ignored": {
			claim("1Gi", phase(corev1.ClaimPending)), claim("2Gi"), []finding.Finding{unbound},
		},
		"lost": {
			claim("1Gi", phase(corev1.ClaimLost)), claim("2Gi"),
			[]finding.Finding{warning("pvc-not-bound", "status.phase", `must be "Bound" for the claim to grow; got "Lost"`,
				"the volume of the claim is lost; create a new claim")},
		},
		"no class": {claim("1Gi", classless), claim("2Gi", classless), []finding.Finding{none(classPath)}},
		"empty class": {
			claim("1Gi", ofClass("")), claim("2Gi", ofClass("")), []finding.Finding{none(classPath)},
		},
		"empty annotation wins": {
			claim("1Gi", betaClass("")), claim("2Gi", betaClass("")), []finding.Finding{none(betaClassPath)},
		},
		"nil became empty": {claim("1Gi", classless), claim("2Gi", ofClass("")), []finding.Finding{none(classPath)}},
		"class changed": {
			claim("1Gi"), claim("2Gi", ofClass("slow")), []finding.Finding{changed(classPath, "fast", "slow", keep)},
		},
		"class changed by the beta": {
			claim("1Gi"), claim("2Gi", betaClass("slow")), []finding.Finding{changed(betaClassPath, "fast", "slow", keep)},
		},
		"same class, from annotation to field": {
			claim("1Gi", betaClass("slow")), claim("2Gi", ofClass("slow")), nil,
		},
		"class given":   {claim("1Gi", classless), claim("2Gi"), []finding.Finding{changed(classPath, "", "fast", first)}},
		"class removed": {claim("1Gi"), claim("2Gi", classless), []finding.Finding{changed(classPath, "fast", "", keep)}},
		"all that fail": {
			claim(
				"1Gi", phase(corev1.ClaimPending), classless,
			), claim("2Gi", classless), []finding.Finding{none(classPath), unbound},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, volume.ExplainClaim(tc.old, tc.new)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplainClass(t *testing.T) {
	forbidden := func(path string) finding.Finding {
		return warning("pvc-class-not-expandable", path, `StorageClass "fast" must have allowVolumeExpansion: true for `+
			`the claim to grow`,
			`ask a cluster administrator to set it if driver "csi.mycloud.io" can expand volumes`)
	}
	for name, tc := range map[string]struct {
		pvc   *corev1.PersistentVolumeClaim
		class *storagev1.StorageClass
		want  []finding.Finding
	}{
		"expandable": {claim("1Gi"), class(), nil},
		"not set":    {claim("1Gi"), class(fixed), []finding.Finding{forbidden(classPath)}},
		"forbidden": {
			claim("1Gi", betaClass("fast")), class(func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = new(false) }),
			[]finding.Finding{forbidden(betaClassPath)},
		},
		"missing": {claim("1Gi"), nil, []finding.Finding{warning(
			"pvc-class-not-found", classPath, `StorageClass "fast" does not exist, so the claim cannot grow`,
			"ask a cluster administrator to create it with allowVolumeExpansion: true",
		)}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, volume.ExplainClass(tc.pvc, tc.class)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHints(t *testing.T) {
	for name, tc := range map[string]struct{ got, want []finding.Finding }{
		"can grow": {volume.HintGrowth(claim("1Gi"), class()), nil},
		"cannot grow": {volume.HintGrowth(claim("1Gi"), class(fixed)), []finding.Finding{warning(
			"pvc-cannot-grow-later", classPath, `StorageClass "fast" does not have allowVolumeExpansion: true, so the claim `+
				`cannot grow later`,
			"request the largest size that the claim will need, or use a different StorageClass",
		)}},
		"the maximum": {volume.HintMaximum(claim("1Ti"), class(), ssd()), nil},
		"beyond": {volume.HintMaximum(claim("2Ti"), class(), ssd()), []finding.Finding{warning(
			"pvc-created-over-maximum", requests,
			`"2Ti" exceeds 1024Gi, the maximum of volume type "ssd" of StorageClass "fast", so no volume can be created`,
			"request less, or use a different StorageClass",
		)}},
		"no such type": {volume.HintMaximum(claim("2Ti"), class(), nil), []finding.Finding{warning(
			"pvc-type-unknown", classPath,
			`volume type "ssd" of StorageClass "fast" does not exist in the cloud, so its limits are unknown`,
			"ask a cluster administrator to recreate the StorageClass with a type that exists",
		)}},
		"class unavailable": {[]finding.Finding{volume.ClassUnavailable(claim("1Gi"))}, []finding.Finding{warning(
			"pvc-class-unavailable", classPath, `the claim was not validated because StorageClass "fast" is temporarily `+
				`unavailable`,
			"check the claim's Events later",
		)}},
		"limits unavailable": {[]finding.Finding{volume.LimitsUnavailable(claim("1Gi"), class())}, []finding.Finding{warning(
			"pvc-limits-unavailable", requests,
			`"1Gi" was not validated against the limits of volume type "ssd" of StorageClass "fast" because the cloud did `+
				`not respond`,
			"check the claim's Events later",
		)}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// Every finding is documented.
func TestGrowthDocs(t *testing.T) {
	lost := claim("1Gi", phase(corev1.ClaimLost), classless)
	inUse := &volume.Attachment{VolumeID: "vol-1", Instance: "i-7"}
	found := slices.Concat(
		volume.ExplainClaim(lost, lost), volume.ExplainClaim(lost, claim("2Gi")),
		volume.ExplainClass(lost, nil), volume.ExplainClass(lost, class(fixed)),
		volume.HintGrowth(lost, class(fixed)), volume.HintMaximum(claim("2Ti"), class(), ssd()),
		[]finding.Finding{volume.ClassUnavailable(lost), volume.LimitsUnavailable(lost, class())},
		volume.Growth{Old: lost, New: claim("2Ti"), Class: class(), Type: archive(), Attachment: inUse}.Findings(),
		volume.Growth{Old: lost, New: claim("2Gi"), Class: class(), Type: archive()}.Findings(),
		volume.Growth{Old: lost, New: claim("2Ti"), Class: class()}.Findings(),
	)
	want := map[finding.Doc]bool{}
	for _, f := range found {
		want[finding.Doc{ID: f.ID, Severity: f.Severity}] = true
	}
	documented := map[finding.Doc]bool{}
	for _, r := range docs(t, "PersistentVolumeClaims") {
		documented[finding.Doc{ID: r.ID, Severity: r.Severity}] = true
	}
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("docs (-found +documented):\n%s", diff)
	}
}

// docs returns the documentation of a chapter.
func docs(t *testing.T, title string) []finding.Doc {
	t.Helper()
	all := finding.Docs().Chapters
	at := slices.IndexFunc(all, func(c finding.Chapter) bool { return c.Title == title })
	if at < 0 {
		t.Fatalf("no chapter %q", title)
	}
	return all[at].Findings
}
