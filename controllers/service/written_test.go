package service

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLateInformer: a pass writes twice. If the informer shows the first write only while the second one is on its way,
// the second one still counts as ours, and causes no pass.
func TestLateInformer(t *testing.T) {
	state := func(version, record string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			UID: "uid", ResourceVersion: version, Annotations: map[string]string{AnnotationRecord: record},
		}}
	}
	w := newWritten()
	w.put(state("1", ""), true)
	w.put(state("2", ""), false)
	w.put(state("2", "lb-1"), true)
	if known, _ := w.informed(state("2", "")); !known {
		t.Error("the first write is not known")
	}
	if _, ours := w.informed(state("3", "lb-1")); !ours {
		t.Error("the second write is not ours")
	}
	w.put(state("3", "lb-1"), false)
	if known, _ := w.informed(state("3", "lb-1")); !known || len(w.services)+len(w.pending) > 0 {
		t.Errorf("the second write: known %t, and remembered are %v", known, w.services)
	}
}
