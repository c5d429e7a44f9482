package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/kube/policystore"
	"quaymaster.dev/internal/rules/finding"
	engine "quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/visible"
)

const (
	// longestCondition is how many bytes of a condition's message are written; the API takes 32768.
	longestCondition = 4096
	// longestEvent is how many bytes of an Event's message are written; the API takes 1024.
	longestEvent = 1000
	// mostInEvent is how many violations an Event lists; the status lists more.
	mostInEvent = 3
)

// own returns the part of a status that this controller owns, in a stable order: others may add conditions.
func own(status *v1alpha1.PolicyStatus) v1alpha1.PolicyStatus {
	ours := *status.DeepCopy()
	ours.Conditions = slices.DeleteFunc(ours.Conditions, func(c metav1.Condition) bool {
		return c.Type != v1alpha1.ConditionAccepted && c.Type != v1alpha1.ConditionCompliant
	})
	slices.SortFunc(ours.Conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return ours
}

// decide returns the status of a policy from its condition Accepted and the sums of its Services. before is its current
// status.
func decide(
	accepted metav1.Condition, entry *policystore.Entry, sums, before v1alpha1.PolicyStatus, now metav1.Time,
) v1alpha1.PolicyStatus {
	status := sums
	status.ObservedGeneration = entry.Generation
	status.Conditions = slices.Clone(before.Conditions)
	for _, condition := range []metav1.Condition{accepted, compliant(sums)} {
		condition.ObservedGeneration = entry.Generation
		// The API stores whole seconds.
		condition.LastTransitionTime = now.Rfc3339Copy()
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	return status
}

// accepted returns the condition Accepted of a policy.
func (c *Controller) accepted(entry *policystore.Entry) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse}
	key := entry.Policy.Key()
	switch namespace, inactive := c.o.Store.Excluded(entry.Policy); {
	case inactive:
		condition.Reason = v1alpha1.ReasonTooLarge
		condition.Message = fmt.Sprintf("the policy is inactive and refuses every load balancer of namespace %q, because "+
			"the policies of kind %s that apply to it are too large in all; shorten it, or delete others", namespace, key.Kind)
	case namespace != "":
		condition.Reason = v1alpha1.ReasonTooMany
		condition.Message = fmt.Sprintf("the policy does not apply to namespace %q: only %d of kind %s do; merge policies",
			namespace, key.MaxApplied(), key.Kind)
	case entry.Problems != "":
		condition.Reason = v1alpha1.ReasonInvalid
		condition.Message = visible.Shorten("the policy applies except for its invalid parts: "+entry.Problems, longestCondition) +
			"; a rule with an invalid part refuses every value"
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonAccepted
		condition.Message = "every part of the policy applies"
	}
	return condition
}

func compliant(sums v1alpha1.PolicyStatus) metav1.Condition {
	if sums.Violating > 0 {
		return metav1.Condition{
			Type: v1alpha1.ConditionCompliant, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonViolations,
			Message: violatingText(sums),
		}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionCompliant, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompliant,
		Message: "no Service breaks a rule",
	}
}

func violatingText(sums v1alpha1.PolicyStatus) string {
	return fmt.Sprintf("%d of %d Services break a rule", sums.Violating, sums.Services)
}

// announce returns the Event about a new status. The message is empty unless there are more violations or none any
// more.
func announce(before, after v1alpha1.PolicyStatus) (eventType, reason, message string) {
	switch {
	case after.Violating > before.Violating:
		return corev1.EventTypeWarning, v1alpha1.ReasonViolations, visible.Shorten(worse(after), longestEvent)
	case after.Violating == 0 && before.Violating > 0:
		return corev1.EventTypeNormal, v1alpha1.ReasonCompliant, "no Service breaks a rule any more"
	default:
		return "", "", ""
	}
}

func worse(status v1alpha1.PolicyStatus) string {
	var examples []string
	for _, v := range status.Violations[:min(len(status.Violations), mostInEvent)] {
		examples = append(examples, fmt.Sprintf("%s/%s: %s: %s", v.Namespace, v.Name, v.Field, v.Message))
	}
	return violatingText(status) + ": " + strings.Join(examples, ", ")
}

// reference returns the object that an Event is about.
func reference(key engine.Key, entry *policystore.Entry) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion().String(), Kind: key.Kind, Namespace: key.Namespace, Name: key.Name,
		UID: entry.UID, ResourceVersion: entry.ResourceVersion,
	}
}

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
		Value: visible.Shorten(f.Value, longestValue), Message: visible.Shorten(message, longestMessage),
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
