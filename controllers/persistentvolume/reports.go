package persistentvolume

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"quaymaster.dev/internal/finding"
)

// Reasons of Events.
const (
	reasonNotFound    = "VolumeNotFound"
	reasonInvalid     = "InvalidZoneLabel"
	reasonOverwritten = "ZoneLabelOverwritten"
)

// reports tells the owner of a PersistentVolume once what is wrong with it, however often it is tried again.
type reports struct {
	recorder record.EventRecorder

	mu sync.Mutex
	// told is the last problem of each PersistentVolume, by name.
	told map[string]report
}

type report struct {
	uid    types.UID
	reason string
}

func newReports(recorder record.EventRecorder) *reports {
	return &reports{recorder: recorder, told: map[string]report{}}
}

// refuse reports the errors among the findings, unless they are known.
func (r *reports) refuse(pv *corev1.PersistentVolume, reason string, findings []finding.Finding) {
	current := report{uid: pv.UID, reason: reason}
	r.mu.Lock()
	known := r.told[pv.Name] == current
	r.told[pv.Name] = current
	r.mu.Unlock()
	if !known {
		r.recorder.Event(pv, corev1.EventTypeWarning, reason, finding.Summary(findings))
	}
}

// overwritten reports the warnings among the findings: they are of a write, which takes place once.
func (r *reports) overwritten(pv *corev1.PersistentVolume, findings []finding.Finding) {
	if warnings := finding.Warnings(findings); len(warnings) > 0 {
		r.recorder.Event(pv, corev1.EventTypeWarning, reasonOverwritten, strings.Join(warnings, "\n"))
	}
}

// settle forgets the problem of a PersistentVolume that has none any more, or is gone.
func (r *reports) settle(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.told, name)
}
