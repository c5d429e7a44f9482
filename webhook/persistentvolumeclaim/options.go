package persistentvolumeclaim

import (
	"cmp"
	"context"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/volume"
	"quaymaster.dev/webhook"
)

// Classes knows the StorageClasses.
type Classes interface {
	// StorageClass returns an error of which apierrors.IsNotFound is true if there is none of the name. Any other means that it
	// cannot be known now, which is never the user's fault.
	StorageClass(ctx context.Context, name string) (*storagev1.StorageClass, error)
}

// Volumes knows what the cloud can do with volumes. An error means that it cannot be known now, which is never the user's fault.
type Volumes interface {
	// VolumeType returns nil if the cloud has no type of the name.
	VolumeType(ctx context.Context, name string) (*volume.Type, error)
	// Volume tells who uses the volume of a PersistentVolume at this moment; nil if it is not the cloud's.
	Volume(ctx context.Context, persistentVolume string) (*volume.Attachment, error)
}

// Options are what the admitters of this package need.
type Options struct {
	// Classes knows the StorageClasses.
	Classes Classes
	// Volumes knows the limits of the cloud; nil if no cloud is configured.
	Volumes Volumes
	// Budget is how long one call may wait for facts; webhook.DefaultBudget if zero.
	Budget time.Duration
	// OnFinding is told of each finding, for metrics; nil if nobody wants to know.
	OnFinding func(finding.Finding)
}

// bounded gives up on facts early enough that the call is answered without them.
func (o *Options) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(o.Budget, webhook.DefaultBudget))
}

// volumeType is the one that a class names, of which the cloud must know.
func (o *Options) volumeType(ctx context.Context, class *storagev1.StorageClass) (*volume.Type, error) {
	t, err := o.Volumes.VolumeType(ctx, volume.TypeOf(class))
	if err != nil || t == nil {
		return nil, err
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	return t, nil
}

// respond counts the findings and returns the response to them.
func (o *Options) respond(pvc *corev1.PersistentVolumeClaim, findings []finding.Finding) *admissionv1.AdmissionResponse {
	return webhook.Respond(schema.GroupKind{Kind: kind}, webhook.ObjectName(pvc.ObjectMeta), findings, o.OnFinding)
}

// logged is the finding that stands for facts that are missing.
func logged(ctx context.Context, err error, pvc *corev1.PersistentVolumeClaim, f finding.Finding) finding.Finding {
	klog.FromContext(ctx).Error(err, "Admitted without a check", "persistentVolumeClaim", klog.KObj(pvc), "rule", f.ID)
	return f
}
