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

// NewValidator returns the Admitter of the validating webhook. It denies growth that the cloud would reject although the API
// server's own plugin allows it.
func NewValidator(o Options) webhook.Admitter { return admitter(o.validate) }

// validate denies with 422 Invalid and one cause per problem.
func (o *Options) validate(ctx context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
	oldPVC, newPVC := webhook.Objects[*corev1.PersistentVolumeClaim](req)
	if oldPVC == nil || !volume.Grows(oldPVC, newPVC) {
		return webhook.Allow(), nil
	}
	return req.Respond(o.limits(ctx, oldPVC, newPVC)), nil
}

func (o *Options) limits(ctx context.Context, oldPVC, newPVC *corev1.PersistentVolumeClaim) []finding.Finding {
	name := volume.ClassOf(newPVC)
	if o.Volumes == nil || name == "" {
		return nil
	}
	class, err := o.Classes.StorageClass(name)
	switch {
	case apierrors.IsNotFound(err):
		// The API server's own plugin denies the update.
		return nil
	case err != nil:
		f := logged(ctx, err, newPVC, volume.ClassUnavailable(newPVC))
		// The mutating webhook has already warned.
		f.Severity = finding.Audit
		return []finding.Finding{f}
	case volume.TypeOf(class) == "":
		return nil
	}
	growth := volume.Growth{Old: oldPVC, New: newPVC, Class: class}
	if growth.Type, err = o.volumeType(class); err != nil {
		return []finding.Finding{logged(ctx, err, newPVC, volume.LimitsUnavailable(newPVC, class))}
	}
	if growth.NeedsAttachment() {
		growth.Attachment, err = o.attachment(ctx, newPVC)
	}
	findings := growth.Findings()
	if err != nil {
		findings = append(findings, logged(ctx, err, newPVC, volume.LimitsUnavailable(newPVC, class)))
	}
	return findings
}
