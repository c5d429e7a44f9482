package policy

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog"
)

// Update is an update of a load balancer, with what it means for the defaults that were recorded.
type Update struct {
	svc *corev1.Service
	// origin holds the origins of the defaults that the Service still has.
	origin map[string]string
	// Immutable are the defaults that the update must not remove.
	Immutable []Default
	// Lost are the others that the update removed together with their record: its author replaced the whole Service,
	// and did not know them. An author who removes a default on purpose leaves the record.
	Lost []Default
}

// NewUpdate returns an update of a load balancer.
func NewUpdate(oldSvc, newSvc *corev1.Service, applicable []*Policy) *Update {
	u := &Update{svc: newSvc, origin: Origins(newSvc.Annotations)}
	recorded := Origins(oldSvc.Annotations)
	maps.DeleteFunc(u.origin, func(key, by string) bool {
		was, had := oldSvc.Annotations[key]
		now, has := newSvc.Annotations[key]
		unchanged := recorded[key] == by && had && has && was == now
		return !unchanged && !isCurrent(newSvc, key, by, applicable)
	})
	_, intact := newSvc.Annotations[AnnotationDefaulted]
	for _, key := range slices.Sorted(maps.Keys(recorded)) {
		was, had := oldSvc.Annotations[key]
		if _, has := newSvc.Annotations[key]; has || !had {
			continue
		}
		switch lost := (Default{Key: key, Value: was, recorded: recorded[key]}); {
		case isImmutable(key):
			u.Immutable = append(u.Immutable, lost)
		case !intact:
			u.Lost = append(u.Lost, lost)
		}
	}
	return u
}

// RefreshRequested reports whether an update requests the current defaults.
func RefreshRequested(oldSvc, newSvc *corev1.Service) bool {
	value := newSvc.Annotations[AnnotationRefresh]
	return value != "" && value != oldSvc.Annotations[AnnotationRefresh]
}

// Recorded returns the defaults that the Service still has: values that are not its author's.
func (u *Update) Recorded() []Default {
	var recorded []Default
	for _, key := range slices.Sorted(maps.Keys(u.origin)) {
		recorded = append(recorded, Default{Key: key, Value: u.svc.Annotations[key], recorded: u.origin[key]})
	}
	return recorded
}

// Annotations returns the annotations that the update must also set, for the defaults that the Service gets.
func (u *Update) Annotations(defaults []Default) map[string]string {
	changed := Values(defaults)
	maps.DeleteFunc(changed, func(key, value string) bool {
		now, set := u.svc.Annotations[key]
		return set && now == value
	})
	record(changed, u.svc, u.origin, defaults)
	return changed
}

// Allowed returns the defaults that break no rule, except for rules with enforcement Audit, and whose keys the
// Service does not set under an alias.
func Allowed(p *catalog.Parsed, defaults []Default, applicable []*Policy) []Default {
	w := newWork()
	return slices.DeleteFunc(slices.Clone(defaults), func(d Default) bool {
		aliases := p.Aliases(d.Key)
		return slices.ContainsFunc(aliases, p.Sets) || breaksRule(d, aliases, applicable, w)
	})
}
