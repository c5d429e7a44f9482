package volume_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/volume"
)

const (
	zone       = "topology.kubernetes.io/zone"
	region     = "topology.kubernetes.io/region"
	betaZone   = "failure-domain.beta.kubernetes.io/zone"
	betaRegion = "failure-domain.beta.kubernetes.io/region"
)

// pv returns a PersistentVolume of the cloud, modified by options.
func pv(options ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: volume.Driver, VolumeHandle: "vol-data-1"},
		}},
	}
	for _, option := range options {
		option(v)
	}
	return v
}

func labeled(pairs ...string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		for i := 0; i < len(pairs); i += 2 {
			metav1.SetMetaDataLabel(&v.ObjectMeta, pairs[i], pairs[i+1])
		}
	}
}

func provisioned(v *corev1.PersistentVolume) {
	metav1.SetMetaDataAnnotation(&v.ObjectMeta, "pv.kubernetes.io/provisioned-by", "csi.mycloud.io")
}

// affine sets the terms of the required node affinity.
func affine(terms ...corev1.NodeSelectorTerm) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
	}
}

func term(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: requirements}
}

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func TestZoned(t *testing.T) {
	csi := func(change func(*corev1.CSIPersistentVolumeSource)) *corev1.PersistentVolume {
		return pv(func(v *corev1.PersistentVolume) { change(v.Spec.CSI) })
	}
	for name, tc := range map[string]struct {
		pv   *corev1.PersistentVolume
		want bool
	}{
		"ours":              {pv(), true},
		"of another driver": {csi(func(s *corev1.CSIPersistentVolumeSource) { s.Driver = "csi.example.com" }), false},
		"no CSI":            {&corev1.PersistentVolume{}, false},
		"no id":             {csi(func(s *corev1.CSIPersistentVolumeSource) { s.VolumeHandle = "" }), false},
		"not yet provisioned": {
			csi(func(s *corev1.CSIPersistentVolumeSource) { s.VolumeHandle = "placeholder-for-provisioning" }), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := volume.Zoned(tc.pv); got != tc.want {
				t.Errorf("Zoned = %t", got)
			}
		})
	}
}

func TestTrusted(t *testing.T) {
	for name, tc := range map[string]struct {
		pv   *corev1.PersistentVolume
		want map[string]string
	}{
		"both": {
			pv(provisioned, labeled(zone, "eu-1a", region, "eu-1")), map[string]string{zone: "eu-1a", region: "eu-1"},
		},
		"both beta": {
			pv(provisioned, labeled(betaZone, "eu-1a", betaRegion, "eu-1")),
			map[string]string{betaZone: "eu-1a", betaRegion: "eu-1"},
		},
		"both pairs": {
			pv(provisioned, labeled(zone, "a", region, "r", betaZone, "b", betaRegion, "s")),
			map[string]string{zone: "a", region: "r"},
		},
		"half, then beta": {
			pv(provisioned, labeled(zone, "a", betaZone, "b", betaRegion, "s")),
			map[string]string{betaZone: "b", betaRegion: "s"},
		},
		"half of each":      {pv(provisioned, labeled(zone, "a", betaRegion, "s")), nil},
		"present but empty": {pv(provisioned, labeled(zone, "a", region, "")), map[string]string{zone: "a", region: ""}},
		"created by a user": {pv(labeled(zone, "eu-1a", region, "eu-1")), nil},
		"no labels":         {pv(provisioned), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := volume.Trusted(tc.pv)
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != (tc.want != nil) {
				t.Errorf("ok %t; labels (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestComplete(t *testing.T) {
	anywhere := affine(term(in("example.com/rack", "1")))
	for name, tc := range map[string]struct {
		pv   *corev1.PersistentVolume
		want bool
	}{
		"labels and affinity":        {pv(labeled(zone, "eu-1a", region, "eu-1"), anywhere), true},
		"trusted beta labels":        {pv(provisioned, labeled(betaZone, "eu-1a", betaRegion, "eu-1"), anywhere), true},
		"beta labels of a user":      {pv(labeled(betaZone, "eu-1a", betaRegion, "eu-1"), anywhere), false},
		"one label":                  {pv(labeled(zone, "eu-1a"), anywhere), false},
		"no affinity":                {pv(labeled(zone, "eu-1a", region, "eu-1")), false},
		"nothing":                    {pv(), false},
		"affinity without condition": {pv(labeled(zone, "eu-1a", region, "eu-1"), affine()), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := volume.Complete(tc.pv); got != tc.want {
				t.Errorf("Complete = %t", got)
			}
		})
	}
}

func TestLabels(t *testing.T) {
	for name, tc := range map[string]struct {
		zones  []string
		region string
		want   map[string]string
		err    string
	}{
		"one": {
			zones: []string{"eu-1a"}, region: "eu-1", want: map[string]string{zone: "eu-1a", region: "eu-1"},
		},
		"several": {
			zones: []string{"eu-1b", "eu-1a", "eu-1b"}, region: "eu-1",
			want: map[string]string{zone: "eu-1a__eu-1b", region: "eu-1"},
		},
		"none": {region: "eu-1", err: "zones must not be empty"},
		"empty": {
			zones: []string{"eu-1a", ""}, region: "eu-1", err: `zones ["eu-1a" ""]: must be non-empty zone names joined by "__"`,
		},
		"no region": {zones: []string{"eu-1a"}, err: "region must not be empty"},
		"not a label": {
			zones: []string{"eu 1a"}, region: "eu-1",
			err: `label value "eu 1a": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' ` +
				`or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', ` +
				`regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		},
		"region not a label": {
			zones: []string{"eu-1a"}, region: "-",
			err: `label value "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or ` +
				`'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex ` +
				`used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := volume.Labels(tc.zones, tc.region)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if text := errorText(err); text != tc.err {
				t.Errorf("error %q, want %q", text, tc.err)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestApplyZones(t *testing.T) {
	one := map[string]string{zone: "eu-1a", region: "eu-1"}
	both := []corev1.NodeSelectorRequirement{in(region, "eu-1"), in(zone, "eu-1a")}
	rack := in("example.com/rack", "1")
	for name, tc := range map[string]struct {
		pv     *corev1.PersistentVolume
		labels map[string]string
		want   volume.ZoneChange
	}{
		"empty":     {pv(), one, volume.ZoneChange{Labels: one, Requirements: both}},
		"no labels": {pv(), nil, volume.ZoneChange{}},
		"complete":  {pv(labeled(zone, "eu-1a", region, "eu-1"), affine(term(both...))), one, volume.ZoneChange{}},
		"several zones, untidy": {
			pv(), map[string]string{betaZone: "eu-1b__ eu-1a __eu-1b"},
			volume.ZoneChange{
				Labels:       map[string]string{betaZone: "eu-1b__ eu-1a __eu-1b"},
				Requirements: []corev1.NodeSelectorRequirement{in(betaZone, "eu-1a", "eu-1b")},
			},
		},
		"a region is never split": {
			pv(), map[string]string{region: "eu__1"},
			volume.ZoneChange{
				Labels: map[string]string{region: "eu__1"}, Requirements: []corev1.NodeSelectorRequirement{in(region, "eu__1")},
			},
		},
		"one key in one of several terms": {
			pv(affine(term(rack), term(rack, in(region, "elsewhere")))), one, volume.ZoneChange{Labels: one},
		},
		"the other generation has different keys": {
			pv(affine(term(in(betaZone, "eu-1a")))), one, volume.ZoneChange{Labels: one, Requirements: both},
		},
		"fields are ignored": {
			pv(affine(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{in(zone, "eu-1a")}})), one,
			volume.ZoneChange{Labels: one, Requirements: both},
		},
		"no terms": {pv(affine()), one, volume.ZoneChange{Labels: one, Requirements: both}},
		"another value": {
			pv(labeled(zone, "eu-1b", region, "eu-1")), one,
			volume.ZoneChange{
				Labels: map[string]string{zone: "eu-1a"}, Requirements: both,
				Findings: []finding.Finding{{
					ID: "pv-label-overwritten", Severity: finding.Warning, Field: "metadata.labels[topology.kubernetes.io/zone]",
					Message: `must match the cloud; the value was replaced by "eu-1a"`, Remedy: "correct the manifest, or remove " +
						"the label from it",
				}},
			},
		},
		"an empty zone": {
			pv(), map[string]string{zone: "eu-1a__", region: "eu-1"},
			volume.ZoneChange{Findings: []finding.Finding{{
				ID: "pv-zone-label-invalid", Severity: finding.Error, Type: "FieldValueInvalid",
				Field: "metadata.labels[topology.kubernetes.io/zone]", Value: "eu-1a__",
				Message: `must be non-empty zone names joined by "__"`,
				Remedy:  `set the volume's zones, such as "eu-1a__eu-1b", or remove the label to use those of the cloud`,
			}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.pv.DeepCopy()
			got := volume.ApplyZones(tc.pv, tc.labels)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.pv); diff != "" {
				t.Errorf("the PersistentVolume itself changed (-before +after):\n%s", diff)
			}
			if len(finding.Errors(got.Findings)) > 0 {
				return
			}
			apply(tc.pv, got)
			if diff := cmp.Diff(volume.ZoneChange{}, volume.ApplyZones(tc.pv, tc.labels)); diff != "" {
				t.Errorf("applied again (-want +got):\n%s", diff)
			}
		})
	}
}

// apply makes the change in the PersistentVolume.
func apply(pv *corev1.PersistentVolume, c volume.ZoneChange) {
	for key, value := range c.Labels {
		metav1.SetMetaDataLabel(&pv.ObjectMeta, key, value)
	}
	if pv.Spec.NodeAffinity == nil || len(pv.Spec.NodeAffinity.Required.NodeSelectorTerms) == 0 {
		pv.Spec.NodeAffinity = c.Affinity()
		return
	}
	for i := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		term := &pv.Spec.NodeAffinity.Required.NodeSelectorTerms[i]
		term.MatchExpressions = append(term.MatchExpressions, c.Requirements...)
	}
}

func TestAffinity(t *testing.T) {
	got := volume.ZoneChange{Requirements: []corev1.NodeSelectorRequirement{in(zone, "eu-1a")}}.Affinity()
	if diff := cmp.Diff(pv(affine(term(in(zone, "eu-1a")))).Spec.NodeAffinity, got); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
	if got := (volume.ZoneChange{}).Affinity(); got != nil {
		t.Errorf("affinity %v without requirements", got)
	}
}

// Every finding is documented.
func TestZoneDocs(t *testing.T) {
	var found []finding.Doc
	for _, f := range []finding.Finding{
		volume.ApplyZones(pv(), map[string]string{zone: ""}).Findings[0],
		volume.NotFound(pv()),
		volume.ApplyZones(pv(labeled(zone, "a")), map[string]string{zone: "b"}).Findings[0],
		volume.ZoneUnavailable(true),
	} {
		found = append(found, finding.Doc{ID: f.ID, Severity: f.Severity})
	}
	var documented []finding.Doc
	for _, r := range docs(t, "PersistentVolumes") {
		documented = append(documented, finding.Doc{ID: r.ID, Severity: r.Severity})
	}
	if diff := cmp.Diff(found, documented); diff != "" {
		t.Errorf("docs (-found +documented):\n%s", diff)
	}
}
