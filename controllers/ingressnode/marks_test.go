package ingressnode

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// A mark that moves from Node to Node every half minute leaves none without it: only what changes all the time rests.
func TestRest(t *testing.T) {
	for name, tc := range map[string]struct {
		every    time.Duration
		withheld bool
	}{
		"every half minute": {every: 30 * time.Second},
		"every second":      {every: time.Second, withheld: true},
	} {
		t.Run(name, func(t *testing.T) {
			m, node, now := newMarks(record.NewFakeRecorder(100)), &corev1.Node{}, time.Now()
			withheld := false
			for range 20 {
				for _, value := range []string{"true", "false"} {
					counts, invalid := m.parse(node, observed{annotated: true, annotation: value}, false, now)
					if invalid || value == "false" && !counts.never {
						t.Fatalf("%q counts as %+v", value, counts)
					}
					withheld = withheld || value == "true" && !counts.has(defaultGroup)
					now = now.Add(tc.every)
				}
			}
			if withheld != tc.withheld {
				t.Errorf("the mark is withheld: %t, want %t", withheld, tc.withheld)
			}
		})
	}
}
