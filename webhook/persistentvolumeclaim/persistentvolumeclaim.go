package persistentvolumeclaim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/volume"
)

// budget bounds how long a request waits for the attachment of a volume, the only thing that admission does not
// know in advance.
const budget = time.Second

// Classes returns StorageClasses from memory.
type Classes interface {
	// StorageClass returns an error for which apierrors.IsNotFound is true if there is no class of that name. Any other
	// error means that the class is temporarily unavailable, which is never the user's mistake.
	StorageClass(name string) (*storagev1.StorageClass, error)
}

// Volumes reads volumes and their types from the cloud. An error means that they are temporarily unavailable, which is
// never the user's mistake.
type Volumes interface {
	// VolumeType answers from memory; it returns nil if the cloud has no type of that name.
	VolumeType(name string) (*volume.Type, error)
	// Volume returns the current attachment of a PersistentVolume's volume; nil if it is not a volume of the cloud.
	Volume(ctx context.Context, persistentVolume string) (*volume.Attachment, error)
}

// Options holds the dependencies of the Admitters of this package.
type Options struct {
	// Classes reads StorageClasses.
	Classes Classes
	// Volumes reads the limits of the cloud; nil if no cloud is configured.
	Volumes Volumes
}

// attachment returns the attachment of a claim's volume; nil if the claim has no volume of the cloud.
func (o *Options) attachment(ctx context.Context, pvc *corev1.PersistentVolumeClaim) (*volume.Attachment, error) {
	if pvc.Spec.VolumeName == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	return o.Volumes.Volume(ctx, pvc.Spec.VolumeName)
}

// volumeType returns the type that a class names; nil if the cloud does not have it.
func (o *Options) volumeType(class *storagev1.StorageClass) (*volume.Type, error) {
	t, err := o.Volumes.VolumeType(volume.TypeOf(class))
	if err != nil || t == nil {
		return nil, err
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	return t, nil
}

// logged logs why facts are missing and returns the finding.
func logged(ctx context.Context, err error, pvc *corev1.PersistentVolumeClaim, f finding.Finding) finding.Finding {
	klog.FromContext(ctx).Error(err, "Admitted PersistentVolumeClaim without validation",
		"persistentVolumeClaim", klog.KObj(pvc), "rule", f.ID)
	return f
}
