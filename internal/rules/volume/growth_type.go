package volume

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const gib = 1 << 30

// Type holds the limits of a volume type of the cloud.
type Type struct {
	// Name is the name by which StorageClasses refer to the type.
	Name string
	// MaxSizeGiB is the maximum size of a volume.
	MaxSizeGiB int64
	// StepGiB is the step: sizes are rounded up to a multiple of it.
	StepGiB int64
	// OnlineExpansion is true if attached volumes can grow.
	OnlineExpansion bool
}

// Check returns an error if no volume can have the type, which means that the response of the cloud is wrong.
func (t *Type) Check() error {
	if t.MaxSizeGiB < 1 || t.StepGiB < 1 {
		return fmt.Errorf("volume type %q: maximum and step must be at least 1 GiB; got %d and %d",
			t.Name, t.MaxSizeGiB, t.StepGiB)
	}
	return nil
}

func (t *Type) exceededBy(bytes int64) bool {
	return t.MaxSizeGiB <= math.MaxInt64/gib && bytes > t.MaxSizeGiB*gib
}

// sizeFor returns the size in GiB of a volume for a request in bytes: rounded up, but never beyond the maximum.
func (t *Type) sizeFor(bytes int64) int64 {
	size := inGiB(bytes)
	if missing := t.StepGiB - size%t.StepGiB; missing < t.StepGiB {
		// The step may be so large that the sum would overflow.
		size += min(missing, math.MaxInt64-size)
	}
	return min(size, t.MaxSizeGiB)
}

// inGiB rounds up to GiB.
func inGiB(bytes int64) int64 {
	size := bytes / gib
	if bytes%gib > 0 {
		size++
	}
	return size
}

func isGiB(bytes, size int64) bool { return bytes%gib == 0 && bytes/gib == size }

// requested returns the storage that a claim requests, in bytes.
func requested(pvc *corev1.PersistentVolumeClaim) int64 {
	return bytesOf(pvc.Spec.Resources.Requests[corev1.ResourceStorage])
}

// bytesOf rounds up to whole bytes. It returns 0 for what is not a size, and the largest integer for larger sizes: a
// user may write 1e2147483647, whose exact value would exhaust memory.
func bytesOf(q resource.Quantity) int64 {
	switch {
	case q.Sign() <= 0:
		return 0
	case q.AsApproximateFloat64() >= math.MaxInt64:
		return math.MaxInt64
	}
	return q.Value()
}
