package volume

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"quaymaster.dev/internal/rules/finding"
)

// typeParameter is the StorageClass parameter with the type of the volumes. The CSI driver reads it, so it must not
// change.
const typeParameter = "type"

// Attachment holds the instance that a volume is attached to.
type Attachment struct {
	// VolumeID is the volume's id in the cloud.
	VolumeID string
	// Instance is the id of the instance that the volume is attached to; empty if it is not attached.
	Instance string
}

// Growth is an update that requests more storage than before.
type Growth struct {
	Old, New *corev1.PersistentVolumeClaim
	// Class is the claim's StorageClass.
	Class *storagev1.StorageClass
	// Type is the volume type of the class, which must pass Check; nil if the cloud has no type of that name.
	Type *Type
	// Attachment is that of the claim's volume; nil if it is unknown.
	Attachment *Attachment
}

// Grows reports whether an update requests more storage. Requesting less is not growth: users revert a failed expansion
// by that.
func Grows(oldPVC, newPVC *corev1.PersistentVolumeClaim) bool {
	return requested(newPVC) > requested(oldPVC)
}

// TypeOf returns the name of a class's volume type; empty if another driver provisions the volumes or the cloud chooses
// the type.
func TypeOf(class *storagev1.StorageClass) string {
	if class.Provisioner != Driver {
		return ""
	}
	return class.Parameters[typeParameter]
}

// NeedsAttachment reports whether the result depends on the Attachment. It does not if the type can grow online, or if
// the claim's new size rounds up to the size that the volume already has in the cloud.
func (g Growth) NeedsAttachment() bool {
	return g.Type != nil && !g.Type.OnlineExpansion && g.Type.sizeFor(requested(g.New)) > g.currentGiB()
}

// Findings returns what the cloud would reject, and what it would do differently from the request.
func (g Growth) Findings() []finding.Finding {
	if g.Type == nil {
		return []finding.Finding{typeUnknown(g.New, g.Class)}
	}
	var findings []finding.Finding
	bytes := requested(g.New)
	switch size := g.Type.sizeFor(bytes); {
	case g.Type.exceededBy(bytes):
		findings = append(findings, overMaximum(g))
	case !isGiB(bytes, size):
		findings = append(findings, offStep(g, max(size, g.currentGiB())))
	}
	if g.NeedsAttachment() && g.Attachment != nil && g.Attachment.Instance != "" {
		findings = append(findings, attached(g))
	}
	return finding.Merge(findings)
}

// currentGiB returns the size in GiB that the volume has, or that was already requested.
func (g Growth) currentGiB() int64 {
	return max(inGiB(bytesOf(g.Old.Status.Capacity[corev1.ResourceStorage])), g.Type.sizeFor(requested(g.Old)))
}

// HintGrowth returns a warning if a new claim cannot grow later, which its author may not expect.
func HintGrowth(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) []finding.Finding {
	if expandable(class) {
		return nil
	}
	return []finding.Finding{cannotGrowLater(pvc, class)}
}

// HintMaximum returns a warning if no volume can be created for a new claim. t is nil if the cloud does not have the
// type that the class names.
func HintMaximum(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, t *Type) []finding.Finding {
	switch {
	case t == nil:
		return []finding.Finding{typeUnknown(pvc, class)}
	case t.exceededBy(requested(pvc)):
		return []finding.Finding{createdOverMaximum(pvc, class, t)}
	}
	return nil
}
