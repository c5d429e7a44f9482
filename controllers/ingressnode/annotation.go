package ingressnode

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

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
	for i, group := range groups {
		switch {
		case group == "true" || group == "false":
			return mark{}, fmt.Errorf("%s must not be combined with other values", group)
		case len(validation.IsDNS1123Label(group)) > 0:
			return mark{}, errors.New("each group must be a DNS label of lower-case letters, digits and '-'")
		case slices.Contains(groups[:i], group):
			return mark{}, fmt.Errorf("duplicate group %q", group)
		}
	}
	return mark{groups: groups}, nil
}
