package release

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"quaymaster.dev/internal/tool/doctor"
)

// The endpoint and the authorities of the installed release come from the ConfigMap that its pods mount.
func TestInstalledCloudConfig(t *testing.T) {
	const text = "clusterID: dev\nendpoint: https://cloud\ntokenFile: /t\ncaFile: /etc/quaymaster/ca.crt\n"
	mounted := func(r *Release) {
		spec := &r.Controllers.Template.Spec
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/quaymaster"}}
		spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "quay-cloud"}},
		}}}
	}
	stored := func(text string) *fake.Clientset {
		return fake.NewClientset(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "quay", Name: "quay-cloud"},
			Data:       map[string]string{"cloud.yaml": text, "ca.crt": "PEM"},
		})
	}
	for name, tc := range map[string]struct {
		cluster *fake.Clientset
		args    []string
		change  func(*Release)
		level   doctor.Level
		found   string
	}{
		"installed":     {stored(text), nil, mounted, doctor.OK, "clusterID dev, endpoint https://cloud"},
		"missing":       {fake.NewClientset(), nil, mounted, doctor.Fail, "ConfigMap quay-cloud is missing"},
		"invalid":       {stored("clusterID: dev"), nil, mounted, doctor.Fail, "cloud.yaml in ConfigMap quay-cloud: "},
		"no ConfigMap":  {stored(text), nil, func(*Release) {}, doctor.Warn, "the file /etc/quaymaster/cloud.yaml of the"},
		"without cloud": {stored(text), []string{"--without-cloud"}, mounted, doctor.Skip, "the controllers run without a cloud"},
		"no controllers": {
			stored(text), nil, func(r *Release) { r.Controllers = nil }, doctor.Skip, "the release does not include",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Release{
				API: tc.cluster, Namespace: "quay", Controllers: deployed(append(tc.args, "--cloud-config=/etc/quaymaster/cloud.yaml")...),
			}
			tc.change(r)
			got := r.Configured(t.Context())
			if got.Level != tc.level || !strings.HasPrefix(got.Found, tc.found) {
				t.Errorf("got %+v, want %s: %s", got, tc.level, tc.found)
			}
			if installed := r.Config != nil && string(r.CA) == "PEM"; installed != (tc.level == doctor.OK) {
				t.Errorf("the config is %+v", r.Config)
			}
			if r.Config == nil && r.NoConfig == "" {
				t.Error("no reason why there is no config")
			}
		})
	}
}
