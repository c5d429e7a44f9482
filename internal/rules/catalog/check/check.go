// Package check implements the checks of catalogs that entries in YAML cannot express.
package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/annotation"
)

// Func is a check that an entry in YAML cannot express.
type Func struct {
	// Help describes the function for authors of catalogs.
	Help string
	// Args are the required arguments, Optional the optional ones.
	Args, Optional []string
	// Check returns a problem that completes "must …"; it returns the empty string if there is none, or if it depends
	// on an invalid value. Catalogs of users can name any function, so the value may be of any type.
	Check func(s Subject) string
	// CheckAll does the same for checks of the whole Service that may report several problems. Only one of the two is
	// set.
	CheckAll func(s Subject) []Problem
}

// Subject is what a Func checks.
type Subject struct {
	Service *corev1.Service
	// Value is the value of the annotation, for checks of annotations.
	Value annotation.Value
	// Raw is the value as the user wrote it.
	Raw string
	// With holds the arguments.
	With map[string]string
	// View gives access to the other annotations.
	View View
}

// View is the Service as the controller of the catalog reads it. In a check of each port, it returns the values at that
// port.
type View interface {
	// Value returns the value of a key, or its default. found is false if there is neither, or the value is invalid.
	Value(key string) (v annotation.Value, found bool)
	// Set reports whether the controller reads an annotation.
	Set(key string) bool
	// Written returns the value of a key as the user wrote it; set is false if the default holds.
	Written(key string) (raw string, set bool)
	// PortValue returns the value of a key with a form for ports at one port, by its index.
	PortValue(key string, port int) (v annotation.Value, known bool)
	// Expand fills in the placeholders of a family's name with their values in the annotation's key.
	Expand(name string) string
	// Placeholder returns the value of a placeholder in the annotation's key.
	Placeholder(name string) (text string, bound bool)
}

// The placeholders in the names of families.
const (
	PlacePort     = "{port}"
	PlacePortName = "{portname}"
	PlacePortRef  = "{portref}"
	PlaceProtocol = "{protocol}"
	PlaceIndex    = "{index}"
	PlaceAny      = "{any}"
)

// Problem is a problem that a Func reports.
type Problem struct {
	// Must completes "must …".
	Must string
	// At is the key or field that the finding points to, if it is not the one of the check.
	At string
	// Path and Value are the field that the finding points to and its value, if At cannot express them.
	Path, Value string
}

// Other returns the value of another key, or its default. found is false if there is neither, or the value is invalid.
func (s Subject) Other(key string) (v annotation.Value, found bool) { return s.View.Value(key) }

// placeholder returns the value of a placeholder, or the empty string.
func (s Subject) placeholder(name string) string {
	text, _ := s.View.Placeholder(name)
	return text
}

// most returns the argument max, which the catalog's validation has found to be a number.
func (s Subject) most() float64 {
	most, _ := strconv.ParseFloat(s.With["max"], 64)
	return most
}

// Find returns the problems that the function reports.
func (f Func) Find(s Subject) []Problem {
	if f.CheckAll != nil {
		return f.CheckAll(s)
	}
	if must := f.Check(s); must != "" {
		return []Problem{{Must: must}}
	}
	return nil
}

// all holds the functions that catalogs can name. Functions of a single cloud are in a separate file.
var all = merge(
	generalFuncs, sharedFuncs, mycloudFuncs, alibabaFuncs, awsLBCFuncs, azureFuncs, baiduFuncs, digitalOceanFuncs,
	gcpFuncs, kubeVIPFuncs, linodeFuncs, metalLBFuncs, ociFuncs, openStackFuncs, tencentFuncs,
)

// Lookup returns the function with a name.
func Lookup(name string) (f Func, found bool) {
	f, found = all[name]
	return f, found
}

var generalFuncs = map[string]Func{
	"service-ports": {
		Help: "Every element is a port of the Service: its number, its name, or either (accept). " +
			"also is another accepted word.",
		Args:     []string{"accept"},
		Optional: []string{"also"},
		Check:    servicePorts,
	},
	"same-length": {
		Help:  "The list has as many elements as the list of another key.",
		Args:  []string{"key"},
		Check: sameLength,
	},
	"less-than": {
		Help:  "The number is less than the number of another key.",
		Args:  []string{"key"},
		Check: func(s Subject) string { return compare(s, "less than", func(a, b float64) bool { return a < b }) },
	},
	"at-most": {
		Help:  "The number is at most the number of another key.",
		Args:  []string{"key"},
		Check: func(s Subject) string { return compare(s, "at most", func(a, b float64) bool { return a <= b }) },
	},
	"product-at-most": {
		Help:  "The number multiplied by the number of another key is at most max.",
		Args:  []string{"key", "max"},
		Check: productAtMost,
	},
	"address-families": {
		Help:  "Every address or CIDR is of a family in spec.ipFamilies, unless that is empty.",
		Check: addressFamilies,
	},
	"one-per-family": {
		Help:  "There is at most one IPv4 and at most one IPv6 address.",
		Check: onePerFamily,
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
			return fmt.Sprintf("name only ports of the Service (%s), not %s",
				strings.Join(ports, ", "), annotation.Quote(element))
		}
	}
	return ""
}

func sameLength(s Subject) string {
	other, found := s.Other(s.With["key"])
	if !found || len(other.List) == len(s.Value.List) {
		return ""
	}
	return fmt.Sprintf("have as many elements as %s, which has %d", s.View.Expand(s.With["key"]), len(other.List))
}

// compare reports a number that does not have a relation, described by words, to the number of another key.
func compare(s Subject, words string, holds func(a, b float64) bool) string {
	other, found := s.Other(s.With["key"])
	if !found || s.Value.Absent || other.Absent || holds(s.Value.Number, other.Number) {
		return ""
	}
	return fmt.Sprintf("be %s %s, which is %s", words, s.View.Expand(s.With["key"]), other.Text)
}

func productAtMost(s Subject) string {
	other, found := s.Other(s.With["key"])
	if !found || s.Value.Number*other.Number <= s.most() {
		return ""
	}
	return fmt.Sprintf("be lower: multiplied by %s, which is %s, it must be at most %s",
		s.View.Expand(s.With["key"]), other.Text, s.With["max"])
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
			return fmt.Sprintf("have at most one address of each family; %s is another %s address",
				annotation.Quote(element), family)
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

// merge merges tables. It panics if a name occurs twice.
func merge(tables ...map[string]Func) map[string]Func {
	all := map[string]Func{}
	for _, table := range tables {
		for name, f := range table {
			if _, duplicate := all[name]; duplicate {
				panic("two functions have the name " + name)
			}
			all[name] = f
		}
	}
	return all
}
