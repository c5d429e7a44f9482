package plan

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	events "k8s.io/client-go/tools/record"

	"quaymaster.dev/internal/mycloud/cloudapi"
)

// explanation says why a write is made, and which fields it changes.
type explanation func(cloudapi.PlannedWrite) (reason string, differences []string)

// recorder collects a plan. One object is planned at a time, by one goroutine.
type recorder struct {
	object  string
	explain explanation
	made    Plan
}

var _ events.EventRecorder = (*recorder)(nil)

// begin names the object that the following writes are made for.
func (r *recorder) begin(object string, explain explanation) { r.object, r.explain = object, explain }

func (r *recorder) write(w cloudapi.PlannedWrite) {
	change := Change{
		Object: r.object, Method: w.Method, Path: w.Path, Header: maps.Clone(w.Header), Body: string(w.Body),
	}
	change.Reason, change.Differences = r.explain(w)
	r.made.Changes = append(r.made.Changes, change)
}

func (r *recorder) wait(reason string) {
	r.made.Waiting = append(r.made.Waiting, Waiting{Object: r.object, Reason: reason})
}

// plan returns the plan with empty lists in place of nil.
func (r *recorder) plan() *Plan {
	p := r.made
	if p.Changes == nil {
		p.Changes = []Change{}
	}
	if p.Waiting == nil {
		p.Waiting = []Waiting{}
	}
	return &p
}

// Event implements record.EventRecorder. What the controllers warn of is a reason to wait; that of a Service is also in
// its condition.
func (r *recorder) Event(object runtime.Object, eventType, _, message string) {
	if node, ok := object.(*corev1.Node); ok && eventType == corev1.EventTypeWarning {
		r.made.Waiting = append(r.made.Waiting, Waiting{Object: "node " + node.Name, Reason: message})
	}
}

// Eventf implements record.EventRecorder.
func (r *recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r *recorder) AnnotatedEventf(
	object runtime.Object, _ map[string]string, eventType, reason, format string, args ...any,
) {
	r.Eventf(object, eventType, reason, format, args...)
}
