package spec

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A Service may have very many ranges, which several checks read: a valid one costs no memory.
func TestSourceRangesAllocateNothing(t *testing.T) {
	svc := &corev1.Service{}
	for i := range 1000 {
		svc.Spec.LoadBalancerSourceRanges = append(svc.Spec.LoadBalancerSourceRanges, fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255))
	}
	valid := 0
	if n := testing.AllocsPerRun(10, func() {
		for r := range SourceRanges(svc) {
			if r.Valid {
				valid++
			}
		}
	}); n != 0 || valid != 11*1000 {
		t.Errorf("%v allocations, %d valid ranges", n, valid)
	}
	for r := range SourceRanges(svc) {
		if want := "spec.loadBalancerSourceRanges[0]"; r.Path() != want {
			t.Errorf("path %s, want %s", r.Path(), want)
		}
		break
	}
}
