package handler

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/failure"
)

// limitWindow is the time for which rate limits count requests.
const limitWindow = time.Minute

// RateLimits has the numbers of requests that all clients together may send in a minute. 0 means unlimited: responses
// do not mention that class.
type RateLimits struct{ Read, Write int }

// limiter counts requests in windows that begin with their first request.
type limiter struct {
	clock   clock.PassiveClock
	classes []class
	mu      sync.Mutex
}

// class is a class of requests that share a limit.
type class struct {
	name  string
	quota int
	// ends is when the window ends in which used requests were sent.
	ends time.Time
	used int
}

const (
	classRead  = "read"
	classWrite = "write"
	// classNone is that of requests that no limit applies to.
	classNone = ""
)

func newLimiter(c clock.PassiveClock, limits RateLimits) *limiter {
	l := &limiter{clock: c}
	for _, k := range []class{{name: classRead, quota: limits.Read}, {name: classWrite, quota: limits.Write}} {
		if k.quota > 0 {
			l.classes = append(l.classes, k)
		}
	}
	return l
}

// allow counts a request of a class and returns 0, or the time to wait if it exceeds the limit. It sets the headers
// with the limits and what is left of them.
func (l *limiter) allow(name string, h http.Header) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	var wait time.Duration
	policies, limits := make([]string, 0, len(l.classes)), make([]string, 0, len(l.classes))
	for i := range l.classes {
		c := &l.classes[i]
		if !now.Before(c.ends) {
			c.ends, c.used = now.Add(limitWindow), 0
		}
		left := c.ends.Sub(now)
		if c.name == name {
			if c.used == c.quota {
				wait = left
			} else {
				c.used++
			}
		}
		policies = append(policies, fmt.Sprintf("%q;q=%d;w=%d", c.name, c.quota, seconds(limitWindow)))
		limits = append(limits, fmt.Sprintf("%q;r=%d;t=%d", c.name, c.quota-c.used, seconds(left)))
	}
	if len(l.classes) > 0 {
		h.Set(cloudv1.HeaderRateLimitPolicy, strings.Join(policies, ", "))
		h.Set(cloudv1.HeaderRateLimit, strings.Join(limits, ", "))
	}
	return wait
}

// giveBack takes back that a request of a class was counted.
func (l *limiter) giveBack(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.classes {
		if c := &l.classes[i]; c.name == name && c.used > 0 {
			c.used--
		}
	}
}

// seconds rounds up, so that a client that waits for the result is not too early.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// limit rejects requests beyond the rate limits. Writes that their senders have no permission for do not count: those who may
// write must not wait for those who may not.
func limit(l *limiter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := requestClass(r)
		if wait := l.allow(name, w.Header()); wait > 0 {
			f := failure.New(http.StatusTooManyRequests, cloudv1.CodeRateLimited, "too many requests of class %q", name)
			f.RetryAfter(time.Duration(seconds(wait))*time.Second).Write(w, r)
			return
		}
		ctx, permitted := access.Watch(r.Context())
		next.ServeHTTP(w, r.WithContext(ctx))
		if name == classWrite && !*permitted {
			l.giveBack(name)
		}
	})
}

// writes reports whether a request asks for a change.
func writes(r *http.Request) bool { return requestClass(r) == classWrite }

// requestClass returns the class of a request. A POST that changes nothing is a read. Heartbeats are not limited: an edge
// would count as offline because of the requests of others.
func requestClass(r *http.Request) string {
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, ":heartbeat") {
		return classNone
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead ||
		r.Method == http.MethodPost && (strings.HasSuffix(r.URL.Path, ":lookup") || strings.HasSuffix(r.URL.Path, ":validate")) {
		return classRead
	}
	return classWrite
}
