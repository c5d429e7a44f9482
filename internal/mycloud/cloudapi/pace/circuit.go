package pace

import "time"

const (
	// failuresToOpen is the number of failures in a row after which a circuit opens.
	failuresToOpen = 5
	// firstRest and maxRest bound how long an open circuit lets nothing pass; it doubles with every failed probe. maxRest
	// is also how long work may wait after the cloud is back.
	firstRest = time.Second
	maxRest   = 15 * time.Second
	// restJitter is the share of a rest that is random.
	restJitter = 0.5
	// probeWait is the wait of requests while another one probes the endpoint.
	probeWait = time.Second
)

// path is what has a circuit of its own: what the cloud fails to do for one flow says nothing about the others.
type path struct{ operation, flow string }

// circuit is the circuit breaker of a path. It is open while until is set; after that time, one request at a time
// probes whether the endpoint responds again.
type circuit struct {
	failures int
	until    time.Time
	rest     time.Duration
	probing  bool
	cause    error
	used     time.Time
}

func (c *circuit) open() bool { return !c.until.IsZero() }

// wait returns how long a request must wait; 0 if it may pass.
func (c *circuit) wait(now time.Time) time.Duration {
	switch {
	case !c.open():
		return 0
	case now.Before(c.until):
		return c.until.Sub(now)
	case c.probing:
		return probeWait
	}
	return 0
}

// enter lets a request pass and reports whether it is a probe.
func (c *circuit) enter() bool {
	c.probing = c.open()
	return c.probing
}

// done learns from a request that has ended. asked is the time that the cloud asked to wait, and random a number from 0
// to 1.
func (c *circuit) done(probe bool, o Outcome, asked time.Duration, random float64, now time.Time) {
	if probe {
		c.probing = false
	}
	switch {
	case o.Canceled:
		return
	case !o.Failed && asked == 0:
		*c = circuit{probing: c.probing && !probe, used: c.used}
		return
	}
	c.cause = o.Err
	c.failures++
	switch {
	case c.open() && !probe:
		// It was sent before the circuit opened: only what the cloud asks for is news.
		c.until = later(c.until, now, asked)
		return
	case !probe && c.failures < failuresToOpen && asked == 0:
		return
	}
	c.rest = min(max(2*c.rest, firstRest), maxRest)
	rest := time.Duration(float64(c.rest) * (1 - restJitter*random))
	c.until = now.Add(max(rest, asked))
}

// later returns until, or the time that the cloud asked for if that is later.
func later(until, now time.Time, asked time.Duration) time.Time {
	if asked > 0 && until.Before(now.Add(asked)) {
		return now.Add(asked)
	}
	return until
}
