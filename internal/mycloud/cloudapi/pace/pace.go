// Package pace decides when requests may be sent to the cloud: not while the cloud asks for silence, not to an endpoint
// that does not respond, and not beyond a share of the quota that the cloud advertises. The package does no I/O and
// reads no clock: callers pass the time.
package pace

import (
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// MaxSilence is the longest silence that a cloud can ask for: it may ask for a year by mistake.
	MaxSilence = 5 * time.Minute
	// defaultSilence is the silence after a 429 that does not say how long to wait.
	defaultSilence = time.Second
	// silenceJitter is added to a silence, as a share of it, so that clients do not return at the same moment.
	silenceJitter = 0.1
)

// Reason is why a request must wait. It is a label value of metrics.
type Reason string

// The reasons.
const (
	// ReasonSilence means that the cloud asked for silence.
	ReasonSilence Reason = "silence"
	// ReasonCircuit means that the endpoint did not respond, or not usefully, several times in a row.
	ReasonCircuit Reason = "circuit"
	// ReasonBudget means that the client has used up its share of the quota.
	ReasonBudget Reason = "budget"
)

// Request is what matters of a request.
type Request struct {
	// Operation is the endpoint: method and path without ids.
	Operation string
	// Write is true for requests that use the quota of writes.
	Write bool
	Class Class
	// Flow names those on whose behalf the request is sent, such as a namespace, if others need the same budget; empty for
	// what serves all of them.
	Flow string
	// Continues is true if an earlier request of the same work was let pass: what was begun can be finished.
	Continues bool
}

// Refusal is why a request must not be sent now, and after which time it may.
type Refusal struct {
	Reason Reason
	After  time.Duration
	// Cause is the error that led to the refusal, or nil.
	Cause error
}

// Outcome describes the end of a request.
type Outcome struct {
	// Failed is true if there was no useful response: the connection failed or the status is of a broken server.
	Failed bool
	// Canceled is true if the caller gave up: this says nothing about the endpoint.
	Canceled bool
	// Throttled is true for the status 429, Unavailable for 503.
	Throttled, Unavailable bool
	// RetryAfter is what the response asks for, or 0.
	RetryAfter time.Duration
	// Limits are the limits that the response advertises.
	Limits []Limit
	// Err is the error of the request.
	Err error
}

// Options configures a Gate.
type Options struct {
	// Share is the share of the advertised quota that may be used, above 0 and at most 1; it defaults to one half.
	Share float64
	// Jitter returns a random number from 0 to 1; it defaults to math/rand.
	Jitter func() float64
}

// Gate decides when requests may be sent. It is safe for concurrent use.
type Gate struct {
	share  float64
	jitter func() float64

	mu       sync.Mutex
	silences map[bool]*silence // by Request.Write
	circuits map[path]*circuit
	budgets  map[string]*budget
	refused  map[Refused]int
}

// silence is a time in which no request of a quota is sent.
type silence struct {
	until time.Time
	cause error
}

// New returns a Gate that lets everything pass until it has seen responses.
func New(o Options) *Gate {
	if o.Share <= 0 || o.Share > 1 {
		o.Share = defaultShare
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	return &Gate{
		share: o.Share, jitter: o.Jitter, silences: map[bool]*silence{}, circuits: map[path]*circuit{},
		budgets: map[string]*budget{}, refused: map[Refused]int{},
	}
}

// Pass is the permission to send one request. Done must be called once the request has ended.
type Pass struct {
	gate    *Gate
	request Request
	probe   bool
}

// Enter returns a Pass, or why the request must not be sent now.
func (g *Gate) Enter(r Request, now time.Time) (*Pass, *Refusal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.silences[r.Write]; s != nil && now.Before(s.until) {
		return nil, g.refuse(r, Refusal{Reason: ReasonSilence, After: s.until.Sub(now), Cause: s.cause})
	}
	c := g.circuit(r, now)
	if wait := c.wait(now); wait > 0 {
		return nil, g.refuse(r, Refusal{Reason: ReasonCircuit, After: wait, Cause: c.cause})
	}
	for _, b := range g.budgets {
		if wait := b.wait(r, now); wait > 0 {
			return nil, g.refuse(r, Refusal{Reason: ReasonBudget, After: b.appoint(r, wait, now)})
		}
	}
	for _, b := range g.budgets {
		b.take(r, now)
	}
	return &Pass{gate: g, request: r, probe: c.enter()}, nil
}

// circuit returns the circuit of a request. Those of flows are dropped when they have not been used for a while.
func (g *Gate) circuit(r Request, now time.Time) *circuit {
	p := path{r.Operation, r.Flow}
	c := g.circuits[p]
	if c == nil {
		maps.DeleteFunc(g.circuits, func(p path, c *circuit) bool { return p.flow != "" && now.Sub(c.used) > 2*MaxSilence })
		c = &circuit{}
		g.circuits[p] = c
	}
	c.used = now
	return c
}

func (g *Gate) refuse(r Request, why Refusal) *Refusal {
	g.refused[Refused{r.Class, why.Reason}]++
	return &why
}

// Done learns from how the request ended.
func (p *Pass) Done(o Outcome, now time.Time) {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range o.Limits {
		g.learn(l, now)
	}
	if !o.Failed && !o.Canceled && !o.Throttled {
		g.forget(p.request, now)
	}
	asked := g.jittered(min(o.RetryAfter, MaxSilence))
	if o.Throttled {
		if asked == 0 {
			asked = g.jittered(defaultSilence)
		}
		g.silence(p.request.Write, now.Add(asked), o.Err)
	}
	if !o.Unavailable {
		asked = 0
	}
	g.circuit(p.request, now).done(p.probe, o, asked, g.jitter(), now)
}

func (g *Gate) jittered(d time.Duration) time.Duration {
	return d + time.Duration(g.jitter()*silenceJitter*float64(d))
}

func (g *Gate) silence(write bool, until time.Time, cause error) {
	if s := g.silences[write]; s == nil || s.until.Before(until) {
		g.silences[write] = &silence{until, cause}
	}
}

// Refused is a kind of refusals.
type Refused struct {
	Class  Class
	Reason Reason
}

// State is what metrics report about a Gate.
type State struct {
	// Budget is the number of requests that a class may send at once; infinite if the cloud advertises no quota.
	Budget map[Class]float64
	// Silence is how long reads (false) and writes (true) must wait because the cloud asked for it.
	Silence map[bool]time.Duration
	// Open reports, by operation, whether requests of any flow are refused because the endpoint did not respond.
	Open map[string]bool
	// Refused counts the requests that were not sent.
	Refused map[Refused]int
}

// State returns the state of the Gate.
func (g *Gate) State(now time.Time) State {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := State{
		Budget: map[Class]float64{}, Silence: map[bool]time.Duration{}, Open: map[string]bool{}, Refused: map[Refused]int{},
	}
	for _, class := range Classes {
		s.Budget[class] = math.Inf(1)
		for _, b := range g.budgets {
			if r := (Request{Class: class, Write: class.writes()}); b.applies(r) {
				s.Budget[class] = min(s.Budget[class], max(0, math.Floor(b.left(r, now))))
			}
		}
		for _, reason := range []Reason{ReasonSilence, ReasonCircuit, ReasonBudget} {
			kind := Refused{class, reason}
			s.Refused[kind] = g.refused[kind]
		}
	}
	for _, write := range []bool{false, true} {
		if at := g.silences[write]; at != nil {
			s.Silence[write] = max(0, at.until.Sub(now))
		} else {
			s.Silence[write] = 0
		}
	}
	for p, c := range g.circuits {
		s.Open[p.operation] = s.Open[p.operation] || c.open()
	}
	return s
}
