package webhook

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/webhook/stream"
)

// ReadMember reads a member that objects of all kinds have. more reads further members of the metadata, and reports
// whether it did. ReadMember reports whether it has read the member.
func ReadMember(
	r *stream.Reader, name []byte, kind *metav1.TypeMeta, meta *metav1.ObjectMeta, more func(name []byte) bool,
) bool {
	switch string(name) {
	case "apiVersion":
		stream.String(r, &kind.APIVersion)
	case "kind":
		stream.String(r, &kind.Kind)
	case "metadata":
		for name := range r.Members() {
			switch string(name) {
			case "name":
				stream.String(r, &meta.Name)
			case "generateName":
				stream.String(r, &meta.GenerateName)
			case "namespace":
				stream.String(r, &meta.Namespace)
			case "deletionTimestamp":
				stream.Pointer(r, &meta.DeletionTimestamp, readTime)
			default:
				if !more(name) {
					r.Skip()
				}
			}
		}
	default:
		return false
	}
	return true
}

func readTime(r *stream.Reader, t *metav1.Time) { r.Unmarshal(t) }
