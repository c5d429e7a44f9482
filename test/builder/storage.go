package builder

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// csiDriver is the driver of the cloud's volumes.
	csiDriver = "csi.mycloud.io"
	// volumeUID and claimUID differ, so that tests can tell the objects apart.
	volumeUID = "0a1b2c3d-0000-4000-8000-000000000002"
	claimUID  = "0a1b2c3d-0000-4000-8000-000000000003"
)

// PersistentVolumeOption changes a PersistentVolume.
type PersistentVolumeOption func(*corev1.PersistentVolume)

// PersistentVolume returns a statically provisioned PersistentVolume of class ssd, for the cloud's volume vol-data-1
// with 20 GiB.
func PersistentVolume(options ...PersistentVolumeOption) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: "data", UID: volumeUID},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: csiDriver, VolumeHandle: "vol-data-1"},
			},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			StorageClassName:              "ssd",
		},
	}
	for _, option := range options {
		option(pv)
	}
	return pv
}

// VolumeHandle sets the ID of the cloud's volume.
func VolumeHandle(id string) PersistentVolumeOption {
	return func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = id }
}

// Source replaces the volume source.
func Source(source corev1.PersistentVolumeSource) PersistentVolumeOption {
	return func(pv *corev1.PersistentVolume) { pv.Spec.PersistentVolumeSource = source }
}

// PersistentVolumeClaimOption changes a PersistentVolumeClaim.
type PersistentVolumeClaimOption func(*corev1.PersistentVolumeClaim)

// PersistentVolumeClaim returns a claim for 20 GiB of class ssd that is bound to PersistentVolume.
func PersistentVolumeClaim(options ...PersistentVolumeClaimOption) *corev1.PersistentVolumeClaim {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: claimUID},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: size},
			StorageClassName: new("ssd"),
			VolumeName:       "data",
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size.DeepCopy()},
	}
	for _, option := range options {
		option(claim)
	}
	return claim
}

// Request sets the requested size, such as 30Gi.
func Request(size string) PersistentVolumeClaimOption {
	return func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
	}
}

// ClaimClass sets the storage class of the claim; empty for none.
func ClaimClass(class string) PersistentVolumeClaimOption {
	return func(claim *corev1.PersistentVolumeClaim) { claim.Spec.StorageClassName = &class }
}

// StorageClassOption changes a StorageClass.
type StorageClassOption func(*storagev1.StorageClass)

// StorageClass returns class ssd for the cloud's volume type ssd; it allows volume expansion.
func StorageClass(options ...StorageClassOption) *storagev1.StorageClass {
	class := &storagev1.StorageClass{
		TypeMeta:             metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta:           metav1.ObjectMeta{Name: "ssd"},
		Provisioner:          csiDriver,
		Parameters:           map[string]string{"type": "ssd"},
		AllowVolumeExpansion: new(true),
	}
	for _, option := range options {
		option(class)
	}
	return class
}

// VolumeType sets the name of the class and of its volume type in the cloud.
func VolumeType(name string) StorageClassOption {
	return func(class *storagev1.StorageClass) {
		class.Name, class.Parameters = name, map[string]string{"type": name}
	}
}
