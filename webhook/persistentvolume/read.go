package persistentvolume

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/stream"
)

var _ webhook.ObjectReader = (*Mutator)(nil)

// ReadObject reads a PersistentVolume.
func (*Mutator) ReadObject(r *stream.Reader) runtime.Object { return read(r) }

// read reads those fields of a PersistentVolume that admission uses.
func read(r *stream.Reader) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{}
	for name := range r.Members() {
		switch {
		case webhook.ReadMember(r, name, &pv.TypeMeta, &pv.ObjectMeta, func(name []byte) bool {
			switch string(name) {
			case "labels":
				stream.Strings(r, &pv.Labels, topological)
			case "annotations":
				stream.Strings(r, &pv.Annotations, byProvisioners)
			default:
				return false
			}
			return true
		}):
		case string(name) == "spec":
			readSpec(r, &pv.Spec)
		default:
			r.Skip()
		}
	}
	return pv
}

// topological reports whether a label may be about a zone or region, in the current or in the beta form.
func topological(key []byte) bool {
	return strings.HasPrefix(string(key), "topology.kubernetes.io/") ||
		strings.HasPrefix(string(key), "failure-domain.beta.kubernetes.io/")
}

// byProvisioners reports whether an annotation may be one of those that provisioners set.
func byProvisioners(key []byte) bool { return strings.HasPrefix(string(key), "pv.kubernetes.io/") }

func readSpec(r *stream.Reader, spec *corev1.PersistentVolumeSpec) {
	for name := range r.Members() {
		switch string(name) {
		case "csi":
			stream.Pointer(r, &spec.CSI, readCSI)
		case "nodeAffinity":
			r.Unmarshal(&spec.NodeAffinity)
		default:
			r.Skip()
		}
	}
}

func readCSI(r *stream.Reader, source *corev1.CSIPersistentVolumeSource) {
	for name := range r.Members() {
		switch string(name) {
		case "driver":
			stream.String(r, &source.Driver)
		case "volumeHandle":
			stream.String(r, &source.VolumeHandle)
		default:
			r.Skip()
		}
	}
}
