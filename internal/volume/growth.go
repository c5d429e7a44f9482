package volume

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"quaymaster.dev/internal/finding"
)

// typeParameter of a StorageClass names the type of its volumes. The driver reads it: it must not change.
const typeParameter = "type"

// Attachment tells which instance uses a volume.
type Attachment struct {
	// VolumeID is the cloud's.
	VolumeID string
	// Instance is the id of the instance that the volume is attached to; empty if there is none.
	Instance string
}

// Growth is an update that asks for more storage than before.
type Growth struct {
	Old, New *corev1.PersistentVolumeClaim
	// Class is the claim's.
	Class *storagev1.StorageClass
	// Type is what the class makes, and passes its Check; nil if the cloud has none of the name.
	Type *Type
	// Attachment is that of the claim's volume; nil if nothing is known of it.
	Attachment *Attachment
}

// Grows tells whether an update asks for more storage. Anything else is no growth: asking for less is how a user takes back an
// expansion that failed.
func Grows(oldPVC, newPVC *corev1.PersistentVolumeClaim) bool {
	return requested(newPVC) > requested(oldPVC)
}

// TypeOf is the name of the type of the volumes that a class makes; empty where the cloud does not make them or chooses the type.
func TypeOf(class *storagev1.StorageClass) string {
	if class.Provisioner != Driver {
		return ""
	}
	return class.Parameters[typeParameter]
}

// NeedsAttachment tells whether it matters who uses the volume. It does not where the type can grow in use, or where the claim's
// new size is nothing to the cloud because it rounds up to what is there.
func (g Growth) NeedsAttachment() bool {
	return g.Type != nil && !g.Type.OnlineExpansion && g.Type.sizeFor(requested(g.New)) > g.now()
}

// Findings are what the cloud refuses to do and what it does otherwise than asked.
func (g Growth) Findings() []finding.Finding {
	if g.Type == nil {
		return []finding.Finding{typeUnknown(g.New, g.Class)}
	}
	var findings []finding.Finding
	wanted := requested(g.New)
	switch size := g.Type.sizeFor(wanted); {
	case g.Type.exceededBy(wanted):
		findings = append(findings, overMaximum(g))
	case !isGiB(wanted, size):
		findings = append(findings, offStep(g, max(size, g.now())))
	}
	if g.NeedsAttachment() && g.Attachment != nil && g.Attachment.Instance != "" {
		findings = append(findings, attached(g))
	}
	return finding.Merge(findings)
}

// now is the size in GiB that the volume has or was already asked to have.
func (g Growth) now() int64 {
	return max(inGiB(bytesOf(g.Old.Status.Capacity[corev1.ResourceStorage])), g.Type.sizeFor(requested(g.Old)))
}

// HintGrowth says that a new claim keeps the size that it asks for, which its author may regret later.
func HintGrowth(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) []finding.Finding {
	if expandable(class) {
		return nil
	}
	return []finding.Finding{cannotGrowLater(pvc, class)}
}

// HintMaximum says that no volume can be made for a new claim. The type is nil if the cloud has none of the name in the class.
func HintMaximum(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, t *Type) []finding.Finding {
	switch {
	case t == nil:
		return []finding.Finding{typeUnknown(pvc, class)}
	case t.exceededBy(requested(pvc)):
		return []finding.Finding{createdOverMaximum(pvc, class, t)}
	}
	return nil
}
