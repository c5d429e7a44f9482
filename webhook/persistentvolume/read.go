package persistentvolume

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/stream"
)

// decodable has the fields of a PersistentVolume that admission uses.
type decodable struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		webhook.Metadata
		Labels      topology     `json:"labels"`
		Annotations provisioning `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		CSI *struct {
			Driver       string `json:"driver"`
			VolumeHandle string `json:"volumeHandle"`
		} `json:"csi"`
		NodeAffinity stream.Whole[*corev1.VolumeNodeAffinity] `json:"nodeAffinity"`
	} `json:"spec"`
}

// Object returns the PersistentVolume.
func (d *decodable) Object() webhook.Object {
	pv := &corev1.PersistentVolume{TypeMeta: d.TypeMeta, ObjectMeta: d.Metadata.ObjectMeta()}
	pv.Labels, pv.Annotations, pv.Spec.NodeAffinity = d.Metadata.Labels, d.Metadata.Annotations, d.Spec.NodeAffinity.Value
	if csi := d.Spec.CSI; csi != nil {
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver, VolumeHandle: csi.VolumeHandle}
	}
	return pv
}

// topology has the labels that may be about a zone or region, in the current or in the beta form.
type topology map[string]string

// UnmarshalJSONFrom decodes the labels.
func (t *topology) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return stream.Strings(d, (*map[string]string)(t), func(key string) bool {
		return strings.HasPrefix(key, "topology.kubernetes.io/") || strings.HasPrefix(key, "failure-domain.beta.kubernetes.io/")
	})
}

// provisioning has the annotations that may be those that provisioners set. Others would be held while the Admitter waits
// for the cloud.
type provisioning map[string]string

// UnmarshalJSONFrom decodes the annotations.
func (p *provisioning) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return stream.Strings(d, (*map[string]string)(p), func(key string) bool { return strings.HasPrefix(key, "pv.kubernetes.io/") })
}
