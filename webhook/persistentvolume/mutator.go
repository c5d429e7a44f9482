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

	"quaymaster.dev/internal/rules"
	"quaymaster.dev/internal/volume"
	"quaymaster.dev/webhook"
)

const (
	kind = "PersistentVolume"
	// auditLabeled is the audit annotation with the labels that were set.
	auditLabeled = "labeled"
)

// defaultBudget leaves a second of the API server's three for everything else.
const defaultBudget = 2 * time.Second

// Resource is what the webhook of this package serves.
func Resource() metav1.GroupVersionResource {
	return metav1.GroupVersionResource{Group: corev1.GroupName, Version: "v1", Resource: "persistentvolumes"}
}

// MutatorOptions are what a Mutator needs.
type MutatorOptions struct {
	// Labeler asks the cloud; it must heed the deadline of the context. nil is no cloud: only what a provisioner wrote counts.
	Labeler cloudprovider.PVLabeler
	// Budget bounds the question to the cloud; 0 is 2 s.
	Budget time.Duration
	// OnFinding is told of each finding, for metrics; nil if nobody wants to know.
	OnFinding func(rules.Finding)
}

// Mutator ties PersistentVolumes to the zones of their volumes when they are created. It changes nothing outside of the request,
// and calling it again changes nothing.
type Mutator struct{ o MutatorOptions }

var _ webhook.Reviewer = (*Mutator)(nil)

// NewMutator makes the reviewer of the mutating webhook.
func NewMutator(o MutatorOptions) *Mutator {
	if o.Budget == 0 {
		o.Budget = defaultBudget
	}
	return &Mutator{o: o}
}

// Review refuses a volume that does not exist, and admits one about which the cloud says nothing.
func (m *Mutator) Review(ctx context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	switch req.Operation {
	case admissionv1.Create:
		return m.complete(ctx, req)
	case admissionv1.Update:
		return keep(req)
	default:
		return webhook.Allow(), nil
	}
}

// keep carries over what the update leaves out because its author does not know of it. What a creation missed the controllers
// add.
func keep(req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	oldPV, newPV := &corev1.PersistentVolume{}, &corev1.PersistentVolume{}
	if err := decode("request.object", req.Object.Raw, newPV); err != nil {
		return nil, err
	}
	if err := decode("request.oldObject", req.OldObject.Raw, oldPV); err != nil {
		return nil, err
	}
	response := webhook.Allow()
	if newPV.DeletionTimestamp != nil || !volume.Zoned(newPV) {
		return response, nil
	}
	var p webhook.Patch
	if affinity := volume.CarryOver(oldPV, newPV); affinity != nil {
		p.Add("/spec/nodeAffinity", affinity)
	}
	return response, p.Into(response)
}

func decode(field string, raw []byte, into *corev1.PersistentVolume) error {
	return webhook.Decode(field, raw, corev1.SchemeGroupVersion.WithKind(kind), into)
}

// complete adds what a new PersistentVolume lacks.
func (m *Mutator) complete(ctx context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	pv := &corev1.PersistentVolume{}
	if err := decode("request.object", req.Object.Raw, pv); err != nil {
		return nil, err
	}
	if pv.DeletionTimestamp != nil || !volume.Zoned(pv) {
		return webhook.Allow(), nil
	}
	change := m.change(ctx, pv)
	if m.o.OnFinding != nil {
		for _, f := range change.Findings {
			m.o.OnFinding(f)
		}
	}
	response := webhook.Judge(schema.GroupKind{Kind: kind}, webhook.ObjectName(pv.ObjectMeta), change.Findings)
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
		return volume.ZoneChange{Findings: []rules.Finding{volume.NotFound(pv)}}
	case err != nil:
		return admitWithout(ctx, pv, err)
	}
	change := volume.ApplyZones(pv, labels)
	if len(rules.Errors(change.Findings)) > 0 {
		// The labels are the cloud's, and so is what is wrong with them.
		return admitWithout(ctx, pv, errors.New(rules.Summary(change.Findings)))
	}
	return change
}

func admitWithout(ctx context.Context, pv *corev1.PersistentVolume, err error) volume.ZoneChange {
	f := volume.ZoneUnavailable()
	klog.FromContext(ctx).Error(err, "Admitted without zones", "persistentVolume", klog.KObj(pv),
		"volume", pv.Spec.CSI.VolumeHandle, "rule", f.ID)
	return volume.ZoneChange{Findings: []rules.Finding{f}}
}
