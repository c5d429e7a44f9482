package plan

import (
	"errors"
	"maps"
)

// refusal is why a unit cannot be as it is wanted.
type refusal struct {
	// times is how many forms of the unit were refused: first the one that is wanted, then the one that was accepted.
	times  int
	reason error
}

// Refusals say why units cannot be as they are wanted, by key.
type Refusals map[string]*refusal

// Add notes why a unit cannot be as it is wanted, unless it is refused already.
func (r Refusals) Add(key string, reason error) {
	if r[key] == nil {
		r[key] = &refusal{1, reason}
	}
}

// Refuse notes why HAProxy refuses sections of a plan's configuration, by their names. It returns false if no unit is the
// cause.
func (r Refusals) Refuse(p *Plan, sections map[string]error) bool {
	found := false
	for _, u := range p.Units {
		reason, ok := sections[u.Key()]
		if !ok {
			reason, ok = sections[p.backendOf[u.Key()]]
		}
		if !ok {
			continue
		}
		found = true
		if r[u.Key()] == nil {
			r[u.Key()] = &refusal{reason: reason}
		}
		r[u.Key()].times++
	}
	return found
}

// Admit forgets the refusals of units that only wait.
func (r Refusals) Admit() {
	maps.DeleteFunc(r, func(_ string, refused *refusal) bool { return isWaiting(refused.reason) })
}

// WaitingError is why a change is not made yet.
type WaitingError struct{ Detail string }

func (w *WaitingError) Error() string { return w.Detail }

func isWaiting(err error) bool {
	_, ok := errors.AsType[*WaitingError](err)
	return ok
}
