package persistentvolume

import (
	"context"
	"errors"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/volume"
	"quaymaster.dev/webhook"
)

// auditLabeled is the audit annotation for the labels that were set.
const auditLabeled = "labeled"

// MutatorOptions holds the dependencies of the Admitter.
type MutatorOptions struct {
	// Labeler queries the cloud; it must respect the deadline of the context. Without a cloud it is nil, and only the
	// labels of provisioners are used.
	Labeler cloudprovider.PVLabeler
	// Completed is true if controllers add the zones that admission could not find out.
	Completed bool
}

// NewMutator returns the Admitter of the mutating webhook. It sets the zones of new PersistentVolumes. It has no side effects,
// and calling it again changes nothing.
func NewMutator(o MutatorOptions) webhook.Admitter {
	return webhook.Admitter{
		Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumes"), Kind: "PersistentVolume",
		Decodable: func() webhook.Decodable { return &decodable{} }, Admit: o.mutate,
	}
}

// mutate denies a PersistentVolume whose volume does not exist, and admits one if the cloud does not respond.
func (o *MutatorOptions) mutate(ctx context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
	oldPV, newPV := webhook.Objects[*corev1.PersistentVolume](req)
	switch {
	case !volume.Zoned(newPV):
		return webhook.Allow(), nil
	case oldPV != nil:
		return keep(oldPV, newPV)
	}
	return o.complete(ctx, req, newPV)
}

// keep carries over the node affinity that an update omits because its author does not know about it. What is missing
// since the creation is added by the controllers, where they run.
func keep(oldPV, newPV *corev1.PersistentVolume) (*admissionv1.AdmissionResponse, error) {
	response := webhook.Allow()
	var p webhook.Patch
	if affinity := volume.CarryOver(oldPV, newPV); affinity != nil {
		p.Add("/spec/nodeAffinity", affinity)
	}
	return response, p.Into(response)
}

// complete adds the zones that a new PersistentVolume lacks.
func (o *MutatorOptions) complete(
	ctx context.Context, req *webhook.Request, pv *corev1.PersistentVolume,
) (*admissionv1.AdmissionResponse, error) {
	change := o.change(ctx, pv)
	response := req.Respond(change.Findings)
	if err := patch(pv, change).Into(response); err != nil {
		return nil, err
	}
	webhook.AuditChange(response, auditLabeled, change.Labels)
	return response, nil
}

// change returns what the PersistentVolume lacks.
func (o *MutatorOptions) change(ctx context.Context, pv *corev1.PersistentVolume) volume.ZoneChange {
	if labels, ok := volume.Trusted(pv); ok {
		return volume.ApplyZones(pv, labels)
	}
	if o.Labeler == nil {
		return volume.ZoneChange{}
	}
	ctx, cancel := context.WithTimeout(ctx, webhook.DefaultBudget)
	defer cancel()
	labels, err := o.Labeler.GetLabelsForVolume(ctx, pv)
	switch {
	case errors.Is(err, cloudprovider.DiskNotFound):
		return volume.ZoneChange{Findings: []finding.Finding{volume.NotFound(pv)}}
	case err != nil:
		return o.admitWithout(ctx, pv, err)
	}
	change := volume.ApplyZones(pv, labels)
	if finding.Deny(change.Findings) {
		// The labels come from the cloud, so their errors are not the user's.
		return o.admitWithout(ctx, pv, errors.New(finding.Summary(change.Findings)))
	}
	return change
}

func (o *MutatorOptions) admitWithout(ctx context.Context, pv *corev1.PersistentVolume, err error) volume.ZoneChange {
	f := volume.ZoneUnavailable(o.Completed)
	klog.FromContext(ctx).Error(err, "Admitted PersistentVolume without zones", "persistentVolume", klog.KObj(pv),
		"volume", pv.Spec.CSI.VolumeHandle, "rule", f.ID)
	return volume.ZoneChange{Findings: []finding.Finding{f}}
}
