package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
)

const (
	// longestValue is how many bytes of an invalid value a status shows: ten violations must fit, whatever the Services
	// contain.
	longestValue = 128
	// longestMessage is the same for messages, parts of which come from the authors of policies.
	longestMessage = 1024
)

// violation converts a finding for the status of a policy.
func violation(svc *corev1.Service, f finding.Finding) v1alpha1.Violation {
	message := f.Message
	if len(f.Listeners) > 0 {
		message += " (" + strings.Join(f.Listeners, ", ") + ")"
	}
	if f.Remedy != "" {
		message += "; " + f.Remedy
	}
	return v1alpha1.Violation{
		Namespace: svc.Namespace, Name: svc.Name, Field: f.Field,
		Value: finding.Shorten(f.Value, longestValue), Message: finding.Shorten(message, longestMessage),
	}
}

// first returns the violations of the first Services by namespace and name, as many as a status lists. It selects them
// without sorting all: there may be thousands, and they are read every second.
func first(violations map[types.NamespacedName]v1alpha1.Violation) []v1alpha1.Violation {
	var listed []types.NamespacedName
	for name := range maps.Keys(violations) {
		if len(listed) == v1alpha1.MaxViolations && byName(name, listed[len(listed)-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(listed, name, byName)
		listed = slices.Insert(listed, at, name)
		listed = listed[:min(len(listed), v1alpha1.MaxViolations)]
	}
	var list []v1alpha1.Violation
	for _, name := range listed {
		list = append(list, violations[name])
	}
	return list
}

func byName(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
