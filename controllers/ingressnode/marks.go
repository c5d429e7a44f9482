package ingressnode

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/record"
)

// reasonInvalid is the reason of Events about an invalid annotation.
const reasonInvalid = "InvalidIngressNodeAnnotation"

// marks keeps the last valid annotation of every Node, so that an invalid one does not move traffic.
type marks struct {
	recorder record.EventRecorder
	valid    map[types.UID]mark
	// unmarked are the groups whose mark was taken from a Node since their last successful sync.
	unmarked map[types.UID][]string
	// reported is the invalid value of each Node that an Event has reported.
	reported map[types.UID]string
}

func newMarks(recorder record.EventRecorder) *marks {
	return &marks{
		recorder: recorder, valid: map[types.UID]mark{}, unmarked: map[types.UID][]string{}, reported: map[types.UID]string{},
	}
}

// parse returns the mark of a Node: its annotation or, if that is invalid, its last valid one. invalid is true if there
// is neither.
func (m *marks) parse(node *corev1.Node, o observed) (last mark, invalid bool) {
	current, err := mark{}, error(nil)
	if o.annotated {
		current, err = parseMark(o.annotation)
	}
	if err == nil {
		m.compare(node.UID, current)
		m.valid[node.UID] = current
		delete(m.reported, node.UID)
		return current, false
	}
	last, remembered := m.valid[node.UID]
	if reported, ok := m.reported[node.UID]; !ok || reported != o.annotation {
		effect := "the previous value stays in effect"
		if !remembered {
			effect = "its membership in node groups is unchanged"
		}
		m.recorder.Eventf(node, corev1.EventTypeWarning, reasonInvalid,
			"annotation %s: invalid value %q: must be true, false or a list of groups such as edge,inner: %v; %s",
			Annotation, o.annotation, err, effect)
		m.reported[node.UID] = o.annotation
	}
	return last, !remembered
}

// compare remembers which marks were taken from a Node: a person has decided that it leaves these groups.
func (m *marks) compare(uid types.UID, current mark) {
	taken := slices.DeleteFunc(m.unmarked[uid], current.has)
	for _, group := range m.valid[uid].groups {
		if !current.has(group) {
			taken = append(taken, group)
		}
	}
	m.unmarked[uid] = taken
}

// settled forgets the marks that were taken from Nodes, which have left by now if they were to leave, except for those of
// groups that failed.
func (m *marks) settled(failed []string) {
	maps.DeleteFunc(m.unmarked, func(uid types.UID, groups []string) bool {
		m.unmarked[uid] = slices.DeleteFunc(groups, func(group string) bool { return !slices.Contains(failed, group) })
		return len(m.unmarked[uid]) == 0
	})
}

// forgetAllBut drops the state of Nodes that no longer exist.
func (m *marks) forgetAllBut(present map[types.UID]bool) {
	maps.DeleteFunc(m.valid, func(uid types.UID, _ mark) bool { return !present[uid] })
	maps.DeleteFunc(m.unmarked, func(uid types.UID, _ []string) bool { return !present[uid] })
	maps.DeleteFunc(m.reported, func(uid types.UID, _ string) bool { return !present[uid] })
}

// Annotation lists the groups of ingress nodes that a Node belongs to. Nodes in clusters carry it: the key must not
// change.
const Annotation = "node.beta.kubernetes.io/dlb-ingress-node"

// defaultGroup is the group that the value true stands for.
const defaultGroup = "default"

// mark is the parsed annotation of a Node. Its zero value is a Node without the annotation.
type mark struct {
	// never is the value false: the Node serves no group, not even one for which no Node is marked.
	never bool
	// groups are the groups that the Node is marked for.
	groups []string
}

func (m mark) has(group string) bool { return slices.Contains(m.groups, group) }

// parseMark parses the annotation's value: true, false, or a comma-separated list of groups.
func parseMark(raw string) (mark, error) {
	switch raw {
	case "true":
		return mark{groups: []string{defaultGroup}}, nil
	case "false":
		return mark{never: true}, nil
	}
	groups := strings.Split(raw, ",")
	known := make(sets.Set[string], len(groups))
	for _, group := range groups {
		switch {
		case group == "true" || group == "false":
			return mark{}, fmt.Errorf("%s must not be combined with other values", group)
		case len(validation.IsDNS1123Label(group)) > 0:
			return mark{}, errors.New("each group must be a DNS label of lower-case letters, digits and '-'")
		case known.Has(group):
			return mark{}, fmt.Errorf("duplicate group %q", group)
		}
		known.Insert(group)
	}
	return mark{groups: groups}, nil
}
