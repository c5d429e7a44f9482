package volume_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/volume"
)

// claim returns a bound claim of class fast that requests size.
func claim(size string, options ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("fast"),
			VolumeName:       "pv-1",
			Resources:        corev1.VolumeResourceRequirements{Requests: storage(size)},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	for _, option := range options {
		option(pvc)
	}
	return pvc
}

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func capacity(size string) func(*corev1.PersistentVolumeClaim) {
	return func(pvc *corev1.PersistentVolumeClaim) { pvc.Status.Capacity = storage(size) }
}

func phase(p corev1.PersistentVolumeClaimPhase) func(*corev1.PersistentVolumeClaim) {
	return func(pvc *corev1.PersistentVolumeClaim) { pvc.Status.Phase = p }
}

func ofClass(name string) func(*corev1.PersistentVolumeClaim) {
	return func(pvc *corev1.PersistentVolumeClaim) { pvc.Spec.StorageClassName = &name }
}

func classless(pvc *corev1.PersistentVolumeClaim) { pvc.Spec.StorageClassName = nil }

func betaClass(name string) func(*corev1.PersistentVolumeClaim) {
	return func(pvc *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&pvc.ObjectMeta, "volume.beta.kubernetes.io/storage-class", name)
	}
}

// class returns a StorageClass of volume type ssd that allows expansion.
func class(options ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	c := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: volume.Driver,
		Parameters: map[string]string{"type": "ssd"}, AllowVolumeExpansion: new(true),
	}
	for _, option := range options {
		option(c)
	}
	return c
}

// ssd returns a type whose maximum is not a multiple of its step.
func ssd() *volume.Type {
	return &volume.Type{Name: "ssd", MaxSizeGiB: 1024, StepGiB: 10, OnlineExpansion: true}
}

func archive() *volume.Type { return &volume.Type{Name: "archive", MaxSizeGiB: 1024, StepGiB: 10} }

const requests = "spec.resources.requests[storage]"

func TestGrows(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to string
		want     bool
	}{
		"more":                       {"10Gi", "11Gi", true},
		"less":                       {"11Gi", "10Gi", false},
		"equal":                      {"10Gi", "10Gi", false},
		"equal in another unit":      {"1Gi", "1024Mi", false},
		"a binary after a decimal":   {"1G", "1Gi", true},
		"a decimal after a binary":   {"1Gi", "1G", false},
		"a fraction":                 {"1Gi", "1.5Gi", true},
		"an exponent":                {"11Gi", "12e9", true},
		"an exponent after a binary": {"12Gi", "12e9", false},
		"too large for memory":       {"1Gi", "1e2147483647", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := volume.Grows(claim(tc.from), claim(tc.to)); got != tc.want {
				t.Errorf("Grows = %t", got)
			}
		})
	}
	if volume.Grows(claim("1Gi"), &corev1.PersistentVolumeClaim{}) {
		t.Error("a claim that requests nothing grows")
	}
}

func TestTypeOf(t *testing.T) {
	for name, tc := range map[string]struct {
		class *storagev1.StorageClass
		want  string
	}{
		"ours":                 {class(), "ssd"},
		"of another driver":    {class(func(c *storagev1.StorageClass) { c.Provisioner = "csi.example.com" }), ""},
		"the driver's default": {class(func(c *storagev1.StorageClass) { c.Parameters = nil }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := volume.TypeOf(tc.class); got != tc.want {
				t.Errorf("TypeOf = %q", got)
			}
		})
	}
}

func TestTypeCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		max, step int64
		ok        bool
	}{
		"good": {1, 1, true}, "no maximum": {0, 1, false}, "no step": {1, 0, false}, "negative": {-1, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := (&volume.Type{Name: "ssd", MaxSizeGiB: tc.max, StepGiB: tc.step}).Check(); (err == nil) != tc.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestGrowth checks the ids of the findings and the size that the off-step warning names.
func TestGrowth(t *testing.T) {
	const (
		huge = 1 << 62
		over = "pvc-over-maximum"
		off  = "pvc-off-step"
		held = "pvc-attached"
	)
	inUse, free := &volume.Attachment{VolumeID: "vol-1", Instance: "i-7"}, &volume.Attachment{VolumeID: "vol-1"}
	for name, tc := range map[string]struct {
		old, new   *corev1.PersistentVolumeClaim
		of         *volume.Type
		attachment *volume.Attachment
		want       []string
		result     string
	}{
		"on the step":                 {claim("10Gi"), claim("20Gi"), ssd(), inUse, nil, ""},
		"on the step in another unit": {claim("10Gi"), claim("20480Mi"), ssd(), nil, nil, ""},
		"off the step":                {claim("10Gi"), claim("11Gi"), ssd(), inUse, []string{off}, "20Gi"},
		"decimal":                     {claim("10Gi"), claim("20G"), ssd(), nil, []string{off}, "20Gi"},
		"one byte over a step":        {claim("10Gi"), claim("21474836481"), ssd(), nil, []string{off}, "30Gi"},
		"a fraction":                  {claim("10Gi"), claim("10.5Gi"), ssd(), nil, []string{off}, "20Gi"},
		"a fraction of a byte":        {claim("10Gi"), claim("10737418240100m"), ssd(), nil, []string{off}, "20Gi"},
		"an exponent":                 {claim("10Gi"), claim("12e9"), ssd(), nil, []string{off}, "20Gi"},
		"beyond the last step":        {claim("10Gi"), claim("1021Gi"), ssd(), nil, []string{off}, "1024Gi"},
		"the maximum":                 {claim("10Gi"), claim("1Ti"), ssd(), nil, nil, ""},
		"one byte beyond":             {claim("10Gi"), claim("1099511627777"), ssd(), nil, []string{over}, ""},
		"further beyond":              {claim("2Ti"), claim("3Ti"), ssd(), nil, []string{over}, ""},
		"the largest integer":         {claim("10Gi"), claim("9223372036854775807"), ssd(), nil, []string{over}, ""},
		"larger than an integer":      {claim("10Gi"), claim("99999E"), ssd(), nil, []string{over}, ""},
		"too large for memory":        {claim("10Gi"), claim("1e2147483647"), ssd(), nil, []string{over}, ""},
		"no real limit": {
			claim("10Gi"), claim("9Ei"), &volume.Type{MaxSizeGiB: huge, StepGiB: huge}, free, []string{off},
			"4611686018427387904Gi",
		},
		"a step beyond the maximum": {
			claim("1Gi"), claim("2Gi"), &volume.Type{MaxSizeGiB: 5, StepGiB: 10}, nil, []string{off}, "5Gi",
		},
		"in use":                         {claim("10Gi"), claim("20Gi"), archive(), inUse, []string{held}, ""},
		"in use and off the step":        {claim("10Gi"), claim("21Gi"), archive(), inUse, []string{held, off}, "30Gi"},
		"in use and beyond":              {claim("10Gi"), claim("2Ti"), archive(), inUse, []string{held, over}, ""},
		"not in use":                     {claim("10Gi"), claim("20Gi"), archive(), free, nil, ""},
		"use unknown":                    {claim("10Gi"), claim("20Gi"), archive(), nil, nil, ""},
		"in use, same size in the cloud": {claim("11Gi"), claim("20Gi"), archive(), inUse, nil, ""},
		"in use, up to the current size": {
			claim("11Gi", capacity("40Gi")), claim("35Gi"), archive(), inUse, []string{off}, "40Gi",
		},
		"in use, beyond the current size": {
			claim("11Gi", capacity("20Gi")), claim("30Gi"), archive(), inUse, []string{held}, "",
		},
		"in use, up to the old request":  {claim("35Gi", capacity("20Gi")), claim("40Gi"), archive(), inUse, nil, ""},
		"in use, off the step as before": {claim("11Gi"), claim("12Gi"), archive(), inUse, []string{off}, "20Gi"},
		"a type unknown to the cloud":    {claim("10Gi"), claim("20Gi"), nil, inUse, []string{"pvc-type-unknown"}, ""},
		"a volume that is not whole GiBs": {
			claim("1G", capacity("1G")), claim("1Gi"), &volume.Type{MaxSizeGiB: 9, StepGiB: 1}, inUse, nil, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := volume.Growth{Old: tc.old, New: tc.new, Class: class(), Type: tc.of, Attachment: tc.attachment}
			var got []string
			for _, f := range g.Findings() {
				got = append(got, f.ID)
				if f.ID == off && !strings.Contains(f.Message, " will have "+tc.result+" instead of ") {
					t.Errorf("want %s, got %s", tc.result, f.Message)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			g.Attachment = inUse
			errors := len(finding.Errors(volume.Growth{Old: tc.old, New: tc.new, Class: class(), Type: tc.of}.Findings()))
			if matters := len(finding.Errors(g.Findings())) > errors; matters != g.NeedsAttachment() {
				t.Errorf("NeedsAttachment = %t, but it matters: %t", g.NeedsAttachment(), matters)
			}
		})
	}
}

func TestGrowthFindings(t *testing.T) {
	inUse := &volume.Attachment{VolumeID: "vol-1", Instance: "i-7"}
	g := volume.Growth{
		Old: claim("10Gi", capacity("20Gi")), New: claim("2Ti"), Class: class(), Type: archive(), Attachment: inUse,
	}
	want := []finding.Finding{
		{
			ID: "pvc-attached", Severity: finding.Error, Type: field.ErrorTypeInvalid, Field: requests, Value: "2Ti",
			Message: "must not grow from 20Gi while volume \"vol-1\" is attached to instance \"i-7\": " +
				"volume type \"ssd\" cannot grow online",
			Remedy: "stop the claim's pods, then retry when the volume is detached",
		},
		{
			ID: "pvc-over-maximum", Severity: finding.Error, Type: field.ErrorTypeInvalid, Field: requests, Value: "2Ti",
			Message: `must be at most 1024Gi, the maximum of volume type "ssd" of StorageClass "fast"; the claim has 20Gi`,
			Remedy:  "request less, or copy the data to a claim with a different StorageClass",
		},
	}
	if diff := cmp.Diff(want, g.Findings()); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	g.New, g.Attachment = claim("21Gi"), nil
	want = []finding.Finding{{
		ID: "pvc-off-step", Severity: finding.Warning, Field: requests,
		Message: "the volume will have 30Gi instead of 21Gi: " +
			`sizes of volume type "ssd" of StorageClass "fast" are multiples of 10Gi, up to 1024Gi`,
		Remedy: "request 30Gi",
	}}
	if diff := cmp.Diff(want, g.Findings()); diff != "" {
		t.Errorf("warning (-want +got):\n%s", diff)
	}
}

// A number with an absurd number of digits must not fill the response.
func TestLongQuantitiesAreTruncated(t *testing.T) {
	g := volume.Growth{Old: claim("10Gi"), New: claim(strings.Repeat("12345", 20)), Class: class(), Type: ssd()}
	if got := g.Findings()[0].Value; got != "12345123451234512345123451234512…" {
		t.Errorf("value %s", got)
	}
}
