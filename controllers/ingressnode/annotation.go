package ingressnode

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Annotation says of a Node which groups of ingress nodes it belongs to. Nodes in clusters carry it: it must not change.
const Annotation = "node.beta.kubernetes.io/dlb-ingress-node"

// defaultGroup is what the value true means.
const defaultGroup = "default"

// mark is what a Node's annotation says. Its zero value is a Node without the annotation.
type mark struct {
	// never is the value false: the Node serves no group, not even where no Node is marked.
	never bool
	// groups are those that the Node is marked for.
	groups []string
}

func (m mark) has(group string) bool { return slices.Contains(m.groups, group) }

// parseMark reads the annotation's value: true, false, or a list of groups, separated by commas.
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
			return mark{}, fmt.Errorf("%s must stand alone: it names no group", group)
		case len(validation.IsDNS1123Label(group)) > 0:
			return mark{}, errors.New("a group is a DNS label: lower-case letters, digits and '-'")
		case slices.Contains(groups[:i], group):
			return mark{}, fmt.Errorf("group %s occurs twice", group)
		}
	}
	return mark{groups: groups}, nil
}
