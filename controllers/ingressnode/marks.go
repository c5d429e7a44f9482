package ingressnode

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// reasonInvalid is the reason of Events about an annotation that cannot be read.
const reasonInvalid = "InvalidIngressNodeAnnotation"

// marks remembers the last good annotation of every Node, because a mistake in it must not move traffic.
type marks struct {
	recorder record.EventRecorder
	good     map[types.UID]mark
	// reported is the bad value that the Node's owner has been told of.
	reported map[types.UID]string
}

func newMarks(recorder record.EventRecorder) *marks {
	return &marks{recorder: recorder, good: map[types.UID]mark{}, reported: map[types.UID]string{}}
}

// read is the Node's mark: what its annotation says, else what it last said. It is unreadable if neither is known.
func (m *marks) read(node *corev1.Node, o observed) (last mark, unreadable bool) {
	current, err := mark{}, error(nil)
	if o.annotated {
		current, err = parseMark(o.annotation)
	}
	if err == nil {
		m.good[node.UID] = current
		delete(m.reported, node.UID)
		return current, false
	}
	last, remembered := m.good[node.UID]
	if told, ok := m.reported[node.UID]; !ok || told != o.annotation {
		kept := "what it said before stays in force"
		if !remembered {
			kept = "its place in the node groups stays as it is"
		}
		m.recorder.Eventf(node, corev1.EventTypeWarning, reasonInvalid,
			"annotation %s: invalid value %q: must be true, false or a list of groups such as edge,inner: %v; %s",
			Annotation, o.annotation, err, kept)
		m.reported[node.UID] = o.annotation
	}
	return last, !remembered
}

// forgetAllBut drops what is known of Nodes that are gone.
func (m *marks) forgetAllBut(present map[types.UID]bool) {
	maps.DeleteFunc(m.good, func(uid types.UID, _ mark) bool { return !present[uid] })
	maps.DeleteFunc(m.reported, func(uid types.UID, _ string) bool { return !present[uid] })
}
