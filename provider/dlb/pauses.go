package dlb

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// The cloud must say this often, and for this long, that a load balancer is absent.
	absentAnswers = 3
	absentFor     = time.Minute
	// absentPeriod is the time between two of these questions, and how often it is looked whether an operator has decided.
	absentPeriod = 30 * time.Second
	// refusedPeriod is the first pause after a write that the cloud has rejected, or a load balancer that is not ours.
	refusedPeriod = time.Minute
	// repairPeriod is the first pause after an attempt to repair a load balancer.
	repairPeriod = 30 * time.Second
	// longestPause is how long a remedy in the cloud, such as a higher quota, may go unnoticed if few Services wait for it.
	longestPause = 10 * time.Minute
	// apart is the time between two of such questions: the more Services wait, the longer is the pause of each.
	apart = 6 * time.Second
	// stale is how long after a pause the next question is still expected.
	stale = time.Hour
)

// pauses remembers answers of the cloud about Services that stay the same until the Service or the cloud changes, so that
// the cloud is asked the same again only after a while, however often a Service is processed.
type pauses struct {
	// first is the pause after each of the first answers, as many as steady. Then it doubles with every answer.
	first  time.Duration
	steady int

	mu   sync.Mutex
	list map[types.UID]*answered
}

// answered is what the cloud was asked about a Service.
type answered struct {
	question string
	// answers is the number of answers, since the time of the first one.
	answers int
	since   time.Time
	// settled is true if no more will be done about it as long as the answer stays the same.
	settled bool
	// until is the time of the next question, and err the error until then, which may be nil.
	until time.Time
	err   error
}

func newPauses(first time.Duration, steady int) *pauses {
	return &pauses{first: first, steady: steady, list: map[types.UID]*answered{}}
}

// count counts an answer, and reports whether there have been enough of them for long enough to be certain.
func (p *pauses) count(uid types.UID, question string, now time.Time) (certain bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.list[uid]
	if a == nil || a.question != question {
		a = &answered{question: question, since: now}
		p.list[uid] = a
	}
	a.answers++
	return a.answers >= absentAnswers && now.Sub(a.since) >= absentFor
}

// settle notes that no more will be done about a Service that was counted.
func (p *pauses) settle(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.list[uid]; a != nil {
		a.settled = true
	}
}

// settled reports whether settle was called for a Service.
func (p *pauses) settled(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list[uid] != nil && p.list[uid].settled
}

// clear ends what is known about all Services.
func (p *pauses) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.list)
}

// begin begins the pause after an answer that was counted, with the error until its end. It returns the pause.
func (p *pauses) begin(uid types.UID, err error, now time.Time) time.Duration {
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
	if more := a.answers - p.steady; more > 0 {
		wait = max(min(p.first<<min(more, 10), longestPause), time.Duration(len(p.list))*apart)
	}
	a.until, a.err = now.Add(wait), err
	return wait
}

// left returns the rest of the pause after a question, and the error until then.
func (p *pauses) left(uid types.UID, question string, now time.Time) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.list[uid]
	if a == nil || a.question != question || !now.Before(a.until) {
		return 0, nil
	}
	return a.until.Sub(now), a.err
}

// noted reports whether there was an answer about a Service.
func (p *pauses) noted(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list[uid] != nil
}

// forget ends what is known about a Service.
func (p *pauses) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.list, uid)
}

// unlessRefused calls write, which sends what the words identify, unless the cloud has rejected the same for the Service
// and the pause is not over: it would be rejected again, unless something has changed in the cloud that cannot be seen.
func (b *Balancer) unlessRefused(r *round, write func() error, words ...any) error {
	raw, err := json.Marshal(words)
	if err != nil {
		return fmt.Errorf("encode a write: %w", err)
	}
	uid, question, now := r.svc.UID, shortHash(raw), b.clock.Now()
	var known *refusal
	if left, err := b.refused.left(uid, question, now); errors.As(err, &known) {
		return known.again(left)
	}
	err = write()
	if err == nil {
		b.refused.forget(uid)
		return nil
	}
	if errors.As(explain(err), &known) && (known.reason == reasonRefused || known.reason == reasonInvalid) {
		b.refused.count(uid, question, now)
		return known.again(b.refused.begin(uid, known, now))
	}
	return err
}

// again returns the refusal, to be checked again after a while.
func (r *refusal) again(after time.Duration) *refusal {
	again := *r
	again.after = max(r.after, after)
	return &again
}
