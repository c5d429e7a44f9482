package persistentvolume

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"quaymaster.dev/internal/rules/finding"
)

// Reasons of Events.
const (
	reasonNotFound    = "VolumeNotFound"
	reasonInvalid     = "InvalidZoneLabel"
	reasonOverwritten = "ZoneLabelOverwritten"
)

// reports records one Event per problem of a PersistentVolume, however often it is retried.
type reports struct {
	recorder record.EventRecorder

	// reported is the last problem of each PersistentVolume, by name.
	reported sync.Map
}

type report struct {
	uid    types.UID
	reason string
}

// problem reports the errors among the findings unless they have been reported.
func (r *reports) problem(pv *corev1.PersistentVolume, reason string, findings []finding.Finding) {
	current := report{uid: pv.UID, reason: reason}
	if before, _ := r.reported.Swap(pv.Name, current); before != current {
		r.recorder.Event(pv, corev1.EventTypeWarning, reason, finding.Summary(findings))
	}
}

// overwritten reports the warnings among the findings of a write, which happens only once.
func (r *reports) overwritten(pv *corev1.PersistentVolume, findings []finding.Finding) {
	if warnings := finding.Warnings(findings); len(warnings) > 0 {
		r.recorder.Event(pv, corev1.EventTypeWarning, reasonOverwritten, strings.Join(warnings, "\n"))
	}
}

// clear forgets the problem of a PersistentVolume that has none any more or no longer exists.
func (r *reports) clear(name string) { r.reported.Delete(name) }
