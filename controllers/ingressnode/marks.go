package ingressnode

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	nodes    map[types.UID]*history
}

// history is what is known of the marks of a Node.
type history struct {
	// known is true once there was a valid annotation: valid is the last one, counted what counts of it.
	known          bool
	valid, counted mark
	rest           rest
	// unmarked are the groups whose mark was taken since their last successful sync.
	unmarked []string
	// reported is the invalid value that an Event has reported; nil if there is none.
	reported *string
}

func newMarks(recorder record.EventRecorder) *marks {
	return &marks{recorder: recorder, nodes: map[types.UID]*history{}}
}

// of returns what is known of a Node.
func (m *marks) of(uid types.UID) *history {
	if m.nodes[uid] == nil {
		m.nodes[uid] = &history{}
	}
	return m.nodes[uid]
}

// parse returns what counts of the mark of a Node: of its annotation or, if that is invalid, of its last valid one. invalid
// is true if there is neither.
func (m *marks) parse(node *corev1.Node, o observed, draining bool, now time.Time) (last mark, invalid bool) {
	current, err := mark{}, error(nil)
	if o.annotated {
		current, err = parseMark(o.annotation)
	}
	n := m.of(node.UID)
	switch {
	case err == nil:
		n.valid, n.reported = current, nil
	case n.reported == nil || *n.reported != o.annotation:
		effect := "the previous value stays in effect"
		if !n.known {
			effect = "its membership in node groups is unchanged"
		}
		m.recorder.Eventf(node, corev1.EventTypeWarning, reasonInvalid,
			"annotation %s: invalid value %q: must be true, false or a list of groups such as edge,inner: %v; %s",
			Annotation, o.annotation, err, effect)
		n.reported = &o.annotation
	}
	if err != nil && !n.known {
		return mark{}, true
	}
	return m.count(node, o.excluded, draining, now), false
}

// reasonRestless is the reason of Events about Nodes that leave and join groups too often.
const reasonRestless = "IngressNodeRestless"

const (
	// A Node that leaves groups again and again joins only after a rest, which doubles from restBase to restMax: each time,
	// all its groups are written, and Services need the same budget of calls. Leaving never waits.
	restBase, restMax = time.Second, time.Minute
	// restForgotten is how long after its rest a Node that leaves counts as one that has never left before: those that leave
	// less often, as when a mark moves from Node to Node, cost little, and must not leave a group empty.
	restForgotten = 20 * time.Second
)

// rest is the time in which a Node that has just left does not join.
type rest struct {
	until  time.Time
	length time.Duration
	// withholds is true if the Node would join otherwise.
	withholds bool
}

// count returns what counts of a Node's mark: what it takes from the Node, at once, and what it adds, unless the Node rests.
// Groups whose mark was taken are remembered: a person has decided that the Node leaves them.
func (m *marks) count(node *corev1.Node, excluded, draining bool, now time.Time) mark {
	n := m.of(node.UID)
	asked, was, r := n.valid, n.counted, &n.rest
	asked.never, asked.draining = asked.never || excluded, draining
	counts, withheld := asked, r.withholds
	if r.withholds = false; now.Before(r.until) {
		counts.never, counts.draining = asked.never || was.never, asked.draining || was.draining
		counts.groups = filter(asked.groups, was.has)
		r.withholds = counts.never != asked.never || counts.draining != asked.draining || len(counts.groups) < len(asked.groups)
	}
	if r.withholds && !withheld {
		m.recorder.Eventf(node, corev1.EventTypeWarning, reasonRestless, "the node leaves and joins ingress groups too often "+
			"(annotation %s, exclude label, cordons or taints); it leaves at once, but joins at most once per %s", Annotation, restMax)
	}
	taken := filter(was.groups, func(group string) bool { return !counts.has(group) })
	if n.known && (len(taken) > 0 || counts.never && !was.never || counts.draining && !was.draining) {
		if r.length = min(max(2*r.length, restBase), restMax); now.Sub(r.until) > restForgotten {
			r.length = 0 // anyone may change their mind once
		}
		r.until = now.Add(r.length)
	}
	n.unmarked = append(slices.DeleteFunc(n.unmarked, counts.has), taken...)
	n.known, n.counted = true, counts
	return counts
}

// next returns the time until another Node that would join has rested, if the marks were counted at that time; 0 if there is
// none.
func (m *marks) next(now time.Time) time.Duration {
	var next time.Duration
	for _, n := range m.nodes {
		if n.rest.withholds {
			next = sooner(next, n.rest.until.Sub(now))
		}
	}
	return next
}

// settled forgets the marks that were taken from Nodes, which have left by now if they were to leave, except for those of
// groups that failed.
func (m *marks) settled(failed []string) {
	for _, n := range m.nodes {
		n.unmarked = slices.DeleteFunc(n.unmarked, func(group string) bool { return !slices.Contains(failed, group) })
	}
}

// forgetAllBut drops the state of Nodes that no longer exist.
func (m *marks) forgetAllBut(present map[types.UID]bool) {
	maps.DeleteFunc(m.nodes, func(uid types.UID, _ *history) bool { return !present[uid] })
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
	// draining is true if the Node is about to leave, whatever its annotation.
	draining bool
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
