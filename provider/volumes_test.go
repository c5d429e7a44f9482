package provider_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/provider"
	"quaymaster.dev/test/cloud"
)

func TestGetLabelsForVolume(t *testing.T) {
	c := cloud.Start(t, 0)
	p := provider.New(provider.Options{Cloud: c.Client})
	csi := func(driver, handle string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle},
			}},
		}
	}
	for name, tc := range map[string]struct {
		volume *corev1.PersistentVolume
		want   map[string]string
		err    error
	}{
		"in one zone": {
			volume: csi("csi.mycloud.io", "vol-data-1"),
			want:   map[string]string{"topology.kubernetes.io/zone": "eu-1a", "topology.kubernetes.io/region": "eu-1"},
		},
		"in several zones": {
			volume: csi("csi.mycloud.io", "vol-shared-1"),
			want:   map[string]string{"topology.kubernetes.io/zone": "eu-1a__eu-1b", "topology.kubernetes.io/region": "eu-1"},
		},
		"of another driver": {volume: csi("csi.example.com", "vol-data-1")},
		"no CSI":            {volume: &corev1.PersistentVolume{}},
		"does not exist":    {volume: csi("csi.mycloud.io", "vol-none"), err: cloudprovider.DiskNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := p.GetLabelsForVolume(t.Context(), tc.volume)
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected labels (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the cloud does not answer", func(t *testing.T) {
		c.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			cloud.Problem(w, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
			return true
		})
		labels, err := p.GetLabelsForVolume(t.Context(), csi("csi.mycloud.io", "vol-data-1"))
		if err == nil || errors.Is(err, cloudprovider.DiskNotFound) {
			t.Errorf("labels %v, error %v; want an error about the cloud", labels, err)
		}
	})
}
