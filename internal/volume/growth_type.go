package volume

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const gib = 1 << 30

// Type bounds what volumes of it may be.
type Type struct {
	// Name is what classes call it.
	Name string
	// MaxSizeGiB is the largest size.
	MaxSizeGiB int64
	// StepGiB is what sizes are rounded up to a multiple of.
	StepGiB int64
	// OnlineExpansion tells whether an attached volume can grow.
	OnlineExpansion bool
}

// Check returns an error if no volume can be of the type, so that the cloud must have said something else than it meant.
func (t *Type) Check() error {
	if t.MaxSizeGiB < 1 || t.StepGiB < 1 {
		return fmt.Errorf("volume type %s: maximum and step must be at least 1 GiB; got %d and %d", t.Name, t.MaxSizeGiB, t.StepGiB)
	}
	return nil
}

func (t *Type) exceededBy(bytes int64) bool {
	return t.MaxSizeGiB <= math.MaxInt64/gib && bytes > t.MaxSizeGiB*gib
}

// sizeFor is the size in GiB of a volume that was asked to have so many bytes: rounded up, but never beyond the maximum.
func (t *Type) sizeFor(bytes int64) int64 {
	size := inGiB(bytes)
	if missing := t.StepGiB - size%t.StepGiB; missing < t.StepGiB {
		// The step may be so large that the sum is no number any more.
		size += min(missing, math.MaxInt64-size)
	}
	return min(size, t.MaxSizeGiB)
}

// inGiB rounds up.
func inGiB(bytes int64) int64 {
	size := bytes / gib
	if bytes%gib > 0 {
		size++
	}
	return size
}

func isGiB(bytes, size int64) bool { return bytes%gib == 0 && bytes/gib == size }

// requested is the storage in bytes that a claim asks for.
func requested(pvc *corev1.PersistentVolumeClaim) int64 {
	return bytesOf(pvc.Spec.Resources.Requests[corev1.ResourceStorage])
}

// bytesOf rounds up to whole bytes. What is no size is 0, and what is too large to be a number of bytes is the largest one:
// a user may write 1e2147483647, whose exact value takes more than all memory to compute.
func bytesOf(q resource.Quantity) int64 {
	switch {
	case q.Sign() <= 0:
		return 0
	case q.AsApproximateFloat64() >= math.MaxInt64:
		return math.MaxInt64
	}
	return q.Value()
}
