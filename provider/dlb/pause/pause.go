// Package pause remembers answers of the cloud about Services that stay the same until the Service or the cloud changes, so
// that the cloud is asked the same again only after a while, however often a Service is processed.
package pause

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// Answers is how often the cloud must answer the same until that is certain.
	Answers = 3
	// For is how long it must do so.
	For = time.Minute
	// longest is how long a remedy in the cloud, such as a higher quota, may go unnoticed if few Services of its namespace wait for it.
	longest = 10 * time.Minute
	// apart is the time between two questions about Services of a namespace: the more of them wait, the longer is the pause
	// of each.
	apart = 6 * time.Second
	// stale is how long after a pause the next question is still expected.
	stale = time.Hour
)

// Pauses are the pauses of Services after answers of one kind.
type Pauses struct {
	first  time.Duration
	steady int

	mu   sync.Mutex
	list map[types.UID]*answered
}

// answered is what the cloud was asked about a Service.
type answered struct {
	namespace, question string
	// answers is the number of answers, since the time of the first one.
	answers int
	since   time.Time
	// settled is true if no more will be done about it as long as the answer stays the same.
	settled bool
	// until is the time of the next question, and err the error until then, which may be nil.
	until time.Time
	err   error
}

// New returns Pauses that last as long as first after each of the first answers, as many as steady. Then they double with
// every answer.
func New(first time.Duration, steady int) *Pauses {
	return &Pauses{first: first, steady: steady, list: map[types.UID]*answered{}}
}

// Count counts an answer, and reports whether there have been enough of them for long enough to be certain.
func (p *Pauses) Count(svc *corev1.Service, question string, now time.Time) (certain bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.list[svc.UID]
	if a == nil || a.question != question {
		a = &answered{namespace: svc.Namespace, question: question, since: now}
		p.list[svc.UID] = a
	}
	a.answers++
	return a.answers >= Answers && now.Sub(a.since) >= For
}

// Settle notes that no more will be done about a Service that was counted.
func (p *Pauses) Settle(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.list[uid]; a != nil {
		a.settled = true
	}
}

// Settled reports whether Settle was called for a Service.
func (p *Pauses) Settled(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list[uid] != nil && p.list[uid].settled
}

// Clear ends what is known about all Services.
func (p *Pauses) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.list)
}

// Begin begins the pause after an answer that was counted, with the error until its end. It returns the pause.
func (p *Pauses) Begin(uid types.UID, err error, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, wait := p.list[uid], p.first
	if a == nil {
		return wait
	}
	// Services that no longer exist, or no longer ask, must not make the others wait.
	maps.DeleteFunc(p.list, func(_ types.UID, other *answered) bool {
		return other != a && !other.until.IsZero() && now.Sub(other.until) > stale
	})
	waiting := 0
	for _, other := range p.list {
		if other.namespace == a.namespace {
			waiting++
		}
	}
	if more := a.answers - p.steady; more > 0 {
		wait = max(min(p.first<<min(more, 10), longest), time.Duration(waiting)*apart)
	}
	a.until, a.err = now.Add(wait), err
	return wait
}

// Left returns the rest of the pause after a question, and the error until then.
func (p *Pauses) Left(uid types.UID, question string, now time.Time) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.list[uid]
	if a == nil || a.question != question || !now.Before(a.until) {
		return 0, nil
	}
	return a.until.Sub(now), a.err
}

// Noted reports whether there was an answer about a Service.
func (p *Pauses) Noted(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list[uid] != nil
}

// Forget ends what is known about a Service.
func (p *Pauses) Forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.list, uid)
}
