package dlb

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// The cloud must say this often, and for this long, that a load balancer is absent.
	absentAnswers = 3
	absentFor     = time.Minute
	// absentPeriod is the time between two questions.
	absentPeriod = 30 * time.Second
)

// absence is a load balancer that the cloud says it does not have.
type absence struct {
	id      string
	since   time.Time
	answers int
}

func (a absence) confirmed(now time.Time) bool {
	return a.answers >= absentAnswers && now.Sub(a.since) >= absentFor
}

// absences are the load balancers that the cloud says it does not have, by the Service's UID.
type absences struct {
	mu   sync.Mutex
	list map[types.UID]absence
}

// note counts an answer and reports whether the absence is confirmed.
func (a *absences) note(uid types.UID, id string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.list[uid]
	if was.answers == 0 || was.id != id {
		was = absence{id: id, since: now}
	}
	was.answers++
	if a.list == nil {
		a.list = map[types.UID]absence{}
	}
	a.list[uid] = was
	return was.confirmed(now)
}

// noted reports whether the cloud has answered that it does not have the load balancer of a Service.
func (a *absences) noted(uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.list[uid].answers > 0
}

// forget ends an absence.
func (a *absences) forget(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.list, uid)
}
