package persistentvolume

import (
	"context"
	"errors"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/volume"
	"quaymaster.dev/webhook"
)

const (
	kind = "PersistentVolume"
	// auditLabeled is the audit annotation with the labels that were set.
	auditLabeled = "labeled"
)

// Resource is what the webhook of this package serves.
func Resource() metav1.GroupVersionResource {
	return metav1.GroupVersionResource{Group: corev1.GroupName, Version: "v1", Resource: "persistentvolumes"}
}

// MutatorOptions are what a Mutator needs.
type MutatorOptions struct {
	// Labeler asks the cloud; it must heed the deadline of the context. nil is no cloud: only what a provisioner wrote counts.
	Labeler cloudprovider.PVLabeler
	// Budget bounds the question to the cloud; 0 is webhook.DefaultBudget.
	Budget time.Duration
	// OnFinding is told of each finding, for metrics; nil if nobody wants to know.
	OnFinding func(finding.Finding)
}

// Mutator ties PersistentVolumes to the zones of their volumes when they are created. It changes nothing outside of the request,
// and calling it again changes nothing.
type Mutator struct{ o MutatorOptions }

var _ webhook.Admitter = (*Mutator)(nil)

// NewMutator makes the admitter of the mutating webhook.
func NewMutator(o MutatorOptions) *Mutator {
	if o.Budget == 0 {
		o.Budget = webhook.DefaultBudget
	}
	return &Mutator{o: o}
}

// Admit refuses a volume that does not exist, and admits one about which the cloud says nothing.
func (m *Mutator) Admit(ctx context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	oldPV, newPV, err := webhook.DecodePair[corev1.PersistentVolume](req, corev1.SchemeGroupVersion.WithKind(kind))
	switch {
	case err != nil:
		return nil, err
	case newPV == nil || newPV.DeletionTimestamp != nil || !volume.Zoned(newPV):
		return webhook.Allow(), nil
	case oldPV != nil:
		return keep(oldPV, newPV)
	}
	return m.complete(ctx, newPV)
}

// keep carries over what the update leaves out because its author does not know of it. What a creation missed the controllers
// add.
func keep(oldPV, newPV *corev1.PersistentVolume) (*admissionv1.AdmissionResponse, error) {
	response := webhook.Allow()
	var p webhook.Patch
	if affinity := volume.CarryOver(oldPV, newPV); affinity != nil {
		p.Add("/spec/nodeAffinity", affinity)
	}
	return response, p.Into(response)
}

// complete adds what a new PersistentVolume lacks.
func (m *Mutator) complete(ctx context.Context, pv *corev1.PersistentVolume) (*admissionv1.AdmissionResponse, error) {
	change := m.change(ctx, pv)
	response := webhook.Respond(schema.GroupKind{Kind: kind}, webhook.ObjectName(pv.ObjectMeta), change.Findings, m.o.OnFinding)
	if err := patch(pv, change).Into(response); err != nil {
		return nil, err
	}
	webhook.AuditChange(response, auditLabeled, change.Labels)
	return response, nil
}

// change is what the PersistentVolume lacks.
func (m *Mutator) change(ctx context.Context, pv *corev1.PersistentVolume) volume.ZoneChange {
	if labels, ok := volume.Trusted(pv); ok {
		return volume.ApplyZones(pv, labels)
	}
	if m.o.Labeler == nil {
		return volume.ZoneChange{}
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.Budget)
	defer cancel()
	labels, err := m.o.Labeler.GetLabelsForVolume(ctx, pv)
	switch {
	case errors.Is(err, cloudprovider.DiskNotFound):
		return volume.ZoneChange{Findings: []finding.Finding{volume.NotFound(pv)}}
	case err != nil:
		return admitWithout(ctx, pv, err)
	}
	change := volume.ApplyZones(pv, labels)
	if len(finding.Errors(change.Findings)) > 0 {
		// The labels are the cloud's, and so is what is wrong with them.
		return admitWithout(ctx, pv, errors.New(finding.Summary(change.Findings)))
	}
	return change
}

func admitWithout(ctx context.Context, pv *corev1.PersistentVolume, err error) volume.ZoneChange {
	f := volume.ZoneUnavailable()
	klog.FromContext(ctx).Error(err, "Admitted without zones", "persistentVolume", klog.KObj(pv),
		"volume", pv.Spec.CSI.VolumeHandle, "rule", f.ID)
	return volume.ZoneChange{Findings: []finding.Finding{f}}
}
