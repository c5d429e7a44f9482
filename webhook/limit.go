package webhook

import (
	"context"
	"runtime"
	"strings"
)

const (
	// maxBodyBytes is the length of the largest AdmissionReview accepted. The API server accepts objects of up to 3
	// MiB, the AdmissionReview of an update contains two of them, and the rest of it stays below 1 MiB.
	maxBodyBytes = 7 << 20
	// maxBytesInFlight bounds the memory for large bodies at a time. Half of it, what one caller may hold, is enough for
	// the largest body.
	maxBytesInFlight = 16 << 20
	// smallBodyBytes is the length up to which a body is not counted, so that large bodies never get in the way of
	// ordinary ones. The number of connections bounds them.
	smallBodyBytes = 16 << 10
	// turnsPerPath is the number of ordinary requests to one path that are handled at a time. Some wait for the cloud, so
	// they are more than there are processors.
	turnsPerPath = 16
)

// Limit bounds what admission requests use at a time, and divides it fairly: a caller (an IP address), a path or a
// namespace that takes all it can get leaves enough for the others. Handlers of the same server share one Limit.
//
//   - Memory: a large body is counted as it arrives, not as announced.
//   - Requests: they are counted while they wait for their turn and are handled, not while they arrive.
//   - Turns: of the requests to one path, a few are handled at a time. The next one is of the caller with the fewest.
//   - Processors: large bodies have turns of their own, on half of the processors, so that ordinary requests never wait
//     for them.
type Limit struct {
	bytes, requests *shares
	large           *turns
}

// NewLimit returns a Limit of that many concurrent requests, waiting ones included. One caller may have half of them.
func NewLimit(requests int) *Limit {
	return &Limit{
		bytes: newShares(maxBytesInFlight), requests: newShares(int64(requests)),
		large: newTurns(max(1, runtime.GOMAXPROCS(0)/2)),
	}
}

// claim is what one request holds of a Limit.
type claim struct {
	limit *Limit
	// caller is the address that the request came from.
	caller string
	// path and namespace are the parts that the request has entered; empty before.
	path, namespace string
	// turns are those of ordinary requests to the path or, once its body has turned out to be large, of large ones.
	turns *turns
	// counted is true if the request counts, and handled if it has its turn.
	counted, handled bool
	body             body
}

// callerOf returns the caller for the remote address of a connection: the host without the port.
func callerOf(remoteAddress string) string {
	if i := strings.LastIndexByte(remoteAddress, ':'); i >= 0 {
		return remoteAddress[:i]
	}
	return remoteAddress
}

// handle waits until a request to the path may be handled, now that its body has arrived. It reports false if there are
// too many, or if it is not the request's turn in time.
func (c *claim) handle(ctx context.Context, path string) bool {
	if !c.limit.requests.take(c.caller, 1) {
		return false
	}
	c.counted = true
	if !c.limit.requests.enter(c.caller, path) {
		return false
	}
	c.path = path
	if c.body.counted > 0 {
		c.turns = c.limit.large
	}
	c.handled = c.turns.take(ctx, c.caller)
	return c.handled
}

// enter reports whether a request about an object in the namespace may be handled. Other objects have no namespace.
func (c *claim) enter(namespace string) bool {
	if namespace == "" {
		return true
	}
	// Namespaces have no slash, so that none is mistaken for a path.
	if !c.limit.requests.enter(c.caller, namespace) {
		return false
	}
	c.namespace = namespace
	return true
}

// release returns everything. The body must not be used any more.
func (c *claim) release() {
	if c.handled {
		c.turns.giveBack(c.caller)
	}
	for _, part := range []string{c.path, c.namespace} {
		if part != "" {
			c.limit.requests.leave(c.caller, part)
		}
	}
	if c.counted {
		c.limit.requests.giveBack(c.caller, 1)
	}
	c.body.release(c)
}
