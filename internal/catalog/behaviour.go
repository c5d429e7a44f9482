package catalog

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/annotation"
)

// Behaviour judges what a flat entry cannot say.
type Behaviour struct {
	// Help tells authors of catalogs what it is for.
	Help string
	// Args are the arguments that it needs, Optional those that it may have.
	Args, Optional []string
	// Judge completes "must …" where it finds fault, and is silent where all is well or a value that it needs is wrong.
	Judge func(s Subject) string
	// JudgeAll does the same for checks of the whole Service that may find several problems; only one of the two is set.
	JudgeAll func(s Subject) []Problem
}

// Subject is what a Behaviour checks.
type Subject struct {
	Service *corev1.Service
	// Value is the value of the annotation, for checks of annotations.
	Value annotation.Value
	// Raw is the same as the user wrote it.
	Raw string
	// With are the arguments.
	With map[string]string

	view     *View
	bindings bindings
	scope    scope
}

// Problem is one thing that a Behaviour finds.
type Problem struct {
	// Must completes "must …".
	Must string
	// At is the key or field to blame, if it is not the one of the check.
	At string
	// Path and Value are the field to blame and its value where At cannot express that.
	Path, Value string
}

// Other returns the value of another key, or its default. found is false where there is neither, or the value is invalid.
func (s Subject) Other(name string) (v annotation.Value, found bool) {
	name = s.bindings.expand(name)
	e, known := s.view.byName[name]
	if known && e.PortForm && s.scope.port > 0 {
		v, _, found = s.view.at(e, s.scope.port-1)
		return v, found && v.List != nil
	}
	for _, setting := range s.view.of(name, s.bindings) {
		return setting.Value, setting.Err == nil
	}
	if known {
		if d, holds := s.view.defaultOf(e, s.scope); holds && d.raw != "" {
			return d.value, true
		}
	}
	return annotation.Value{}, false
}

// find returns the problems that the behaviour finds.
func (b Behaviour) find(s Subject) []Problem {
	if b.JudgeAll != nil {
		return b.JudgeAll(s)
	}
	if must := b.Judge(s); must != "" {
		return []Problem{{Must: must}}
	}
	return nil
}

// behaviours are those that catalogs name. What one vendor alone needs stands in a file of its own.
var behaviours = merge(general, own, behavioursOfAlibaba, behavioursOfBaidu, behavioursOfAWSLBC, behavioursOfGCP, shared, behavioursOfAzure, behavioursOfOCI, behavioursOfKubeVIP, behavioursOfMetalLB, behavioursOfDigitalOcean, behavioursOfLinode, behavioursOfOpenStack)

var general = map[string]Behaviour{
	"service-ports": {
		Help:     "Every element is a port of the Service: its number, or its name, or either (accept); also is one more word.",
		Args:     []string{"accept"},
		Optional: []string{"also"},
		Judge:    servicePorts,
	},
	"same-length": {
		Help:  "The list is as long as that of another key.",
		Args:  []string{"key"},
		Judge: sameLength,
	},
	"less-than": {
		Help:  "The number is less than that of another key.",
		Args:  []string{"key"},
		Judge: func(s Subject) string { return compare(s, "less than", func(a, b float64) bool { return a < b }) },
	},
	"at-most": {
		Help:  "The number is at most that of another key.",
		Args:  []string{"key"},
		Judge: func(s Subject) string { return compare(s, "at most", func(a, b float64) bool { return a <= b }) },
	},
	"product-at-most": {
		Help:  "The number times that of another key is at most max.",
		Args:  []string{"key", "max"},
		Judge: productAtMost,
	},
	"address-families": {
		Help:  "Every address, or CIDR, is of a family that spec.ipFamilies names, if it names any.",
		Judge: addressFamilies,
	},
	"one-per-family": {
		Help:  "There is at most one IPv4 and at most one IPv6 address.",
		Judge: onePerFamily,
	},
}

func servicePorts(s Subject) string {
	var ports []string
	for _, p := range s.Service.Spec.Ports {
		if accept := s.With["accept"]; accept != "name" {
			ports = append(ports, strconv.Itoa(int(p.Port)))
		}
		if accept := s.With["accept"]; accept != "number" && p.Name != "" {
			ports = append(ports, p.Name)
		}
	}
	for _, element := range s.Value.List {
		if element != s.With["also"] && !slices.Contains(ports, element) {
			return fmt.Sprintf("name ports of the Service alone, which are %s; %s is none", strings.Join(ports, ", "), annotation.Quote(element))
		}
	}
	return ""
}

func sameLength(s Subject) string {
	other, found := s.Other(s.With["key"])
	if !found || len(other.List) == len(s.Value.List) {
		return ""
	}
	return fmt.Sprintf("have as many elements as %s, which has %d", s.bindings.expand(s.With["key"]), len(other.List))
}

func compare(s Subject, words string, right func(a, b float64) bool) string {
	other, found := s.Other(s.With["key"])
	if !found || s.Value.Absent || other.Absent || right(s.Value.Number, other.Number) {
		return ""
	}
	return fmt.Sprintf("be %s %s, which is %s", words, s.bindings.expand(s.With["key"]), other.Text)
}

func productAtMost(s Subject) string {
	other, found := s.Other(s.With["key"])
	most, err := strconv.ParseFloat(s.With["max"], 64)
	must(err)
	if !found || s.Value.Number*other.Number <= most {
		return ""
	}
	return fmt.Sprintf("be so small that it is at most %s when multiplied by %s, which is %s", s.With["max"], s.bindings.expand(s.With["key"]), other.Text)
}

func addressFamilies(s Subject) string {
	allowed := s.Service.Spec.IPFamilies
	for _, element := range s.Value.List {
		family, ok := familyOf(element)
		if ok && len(allowed) > 0 && !slices.Contains(allowed, family) {
			return fmt.Sprintf("be of the families in spec.ipFamilies; %s is %s", annotation.Quote(element), family)
		}
	}
	return ""
}

func onePerFamily(s Subject) string {
	seen := map[corev1.IPFamily]bool{}
	for _, element := range s.Value.List {
		family, ok := familyOf(element)
		if ok && seen[family] {
			return fmt.Sprintf("have at most one address of each family; %s is one more of %s", annotation.Quote(element), family)
		}
		seen[family] = true
	}
	return ""
}

func familyOf(text string) (corev1.IPFamily, bool) {
	address, _, _ := strings.Cut(text, "/")
	ip, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return "", false
	case ip.Unmap().Is4():
		return corev1.IPv4Protocol, true
	}
	return corev1.IPv6Protocol, true
}

// merge makes one table of several; a name may occur once.
func merge(tables ...map[string]Behaviour) map[string]Behaviour {
	all := map[string]Behaviour{}
	for _, table := range tables {
		for name, behaviour := range table {
			if _, twice := all[name]; twice {
				panic("two behaviours are called " + name)
			}
			all[name] = behaviour
		}
	}
	return all
}
