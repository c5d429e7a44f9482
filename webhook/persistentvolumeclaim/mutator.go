package persistentvolumeclaim

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/volume"
	"quaymaster.dev/webhook"
)

// NewMutator returns the Admitter of the mutating webhook, which changes nothing. It is called before the API server's own
// plugin decides, and warns about what that plugin will deny without a reason, and about limits that the author of a new
// claim may not expect.
func NewMutator(o Options) webhook.Admitter { return admitter(o.warn) }

// warn never denies a claim.
func (o *Options) warn(ctx context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
	oldPVC, newPVC := webhook.Objects[*corev1.PersistentVolumeClaim](req)
	switch {
	case oldPVC == nil:
		return req.Respond(o.hints(ctx, newPVC)), nil
	case volume.Grows(oldPVC, newPVC):
		return req.Respond(o.explain(ctx, oldPVC, newPVC)), nil
	}
	return webhook.Allow(), nil
}

// hints returns the warnings for a new claim. There are none without a class, or for a class that does not exist: such
// claims are for volumes that were created by other means.
func (o *Options) hints(ctx context.Context, pvc *corev1.PersistentVolumeClaim) []finding.Finding {
	name := volume.ClassOf(pvc)
	if name == "" {
		return nil
	}
	class, err := o.Classes.StorageClass(name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return []finding.Finding{logged(ctx, err, pvc, volume.ClassUnavailable(pvc))}
	}
	findings := volume.HintGrowth(pvc, class)
	if o.Volumes == nil || volume.TypeOf(class) == "" {
		return findings
	}
	t, err := o.volumeType(class)
	if err != nil {
		return append(findings, logged(ctx, err, pvc, volume.LimitsUnavailable(pvc, class)))
	}
	return append(findings, volume.HintMaximum(pvc, class, t)...)
}

// explain returns all conditions for growth that are not met.
func (o *Options) explain(ctx context.Context, oldPVC, newPVC *corev1.PersistentVolumeClaim) []finding.Finding {
	findings := volume.ExplainClaim(oldPVC, newPVC)
	name := volume.ClassOf(newPVC)
	if name == "" {
		return findings
	}
	class, err := o.Classes.StorageClass(name)
	switch {
	case apierrors.IsNotFound(err):
		class = nil
	case err != nil:
		return append(findings, logged(ctx, err, newPVC, volume.ClassUnavailable(newPVC)))
	}
	return append(findings, volume.ExplainClass(newPVC, class)...)
}
