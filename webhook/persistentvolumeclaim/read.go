package persistentvolumeclaim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/stream"
)

var _, _ webhook.ObjectReader = (*Mutator)(nil), (*Validator)(nil)

// ReadObject reads a PersistentVolumeClaim.
func (*Mutator) ReadObject(r *stream.Reader) runtime.Object { return read(r) }

// ReadObject reads a PersistentVolumeClaim.
func (*Validator) ReadObject(r *stream.Reader) runtime.Object { return read(r) }

// read reads those fields of a PersistentVolumeClaim that admission uses.
func read(r *stream.Reader) *corev1.PersistentVolumeClaim {
	pvc := &corev1.PersistentVolumeClaim{}
	for name := range r.Members() {
		if webhook.ReadMember(r, name, &pvc.TypeMeta, &pvc.ObjectMeta, func(name []byte) bool {
			if string(name) != "annotations" {
				return false
			}
			stream.Strings(r, &pvc.Annotations, func(key []byte) bool { return string(key) == corev1.BetaStorageClassAnnotation })
			return true
		}) {
			continue
		}
		switch string(name) {
		case "spec":
			readSpec(r, &pvc.Spec)
		case "status":
			readStatus(r, &pvc.Status)
		default:
			r.Skip()
		}
	}
	return pvc
}

func readSpec(r *stream.Reader, spec *corev1.PersistentVolumeClaimSpec) {
	for name := range r.Members() {
		switch string(name) {
		case "resources":
			readResources(r, &spec.Resources)
		case "storageClassName":
			stream.Pointer(r, &spec.StorageClassName, stream.String)
		case "volumeName":
			stream.String(r, &spec.VolumeName)
		default:
			r.Skip()
		}
	}
}

func readResources(r *stream.Reader, resources *corev1.VolumeResourceRequirements) {
	for name := range r.Members() {
		if string(name) == "requests" {
			readStorage(r, &resources.Requests)
		} else {
			r.Skip()
		}
	}
}

// readStorage reads the only resource that matters.
func readStorage(r *stream.Reader, list *corev1.ResourceList) {
	if r.Null() {
		*list = nil
		return
	}
	for name := range r.Members() {
		if string(name) != string(corev1.ResourceStorage) {
			r.Skip()
			continue
		}
		var quantity resource.Quantity
		stream.Quantity(r, &quantity)
		*list = corev1.ResourceList{corev1.ResourceStorage: quantity}
	}
}

func readStatus(r *stream.Reader, status *corev1.PersistentVolumeClaimStatus) {
	for name := range r.Members() {
		switch string(name) {
		case "phase":
			stream.String(r, &status.Phase)
		case "capacity":
			readStorage(r, &status.Capacity)
		default:
			r.Skip()
		}
	}
}
