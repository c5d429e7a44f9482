package safety

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// errDead is the error of every call that a process makes after its end.
var errDead = errors.New("the process has been killed")

// process stands for one run of the controllers' program. Its calls to the API server and to the cloud are numbered,
// and it can be killed before or after one of them.
type process struct {
	kill context.CancelFunc
	// epoch is the number of the leader.
	epoch atomic.Int64

	mu    sync.Mutex
	calls []string
	// polls is the number of requests that the cloud holds until something changes, which are not among calls.
	polls int
	dead  bool
	// at is the number of the call at which the process is killed; 0 means that it is not.
	at int
	// after is true if the call still takes effect.
	after bool
	// late, if not 0, is how much later the next write to the cloud arrives, although the process is dead.
	late time.Duration
}

// arm makes the process die at the nth call from now on.
func (p *process) arm(n int, after bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls, p.polls, p.at, p.after = nil, 0, n, after
}

// made returns the calls since the last call of arm.
func (p *process) made() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.calls...)
}

// polled returns the number of requests for changes of the cloud since the last call of arm.
func (p *process) polled() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.polls
}

// died reports whether the process was killed.
func (p *process) died() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// count numbers a call. It returns whether the call is made, and whether the process dies with it.
func (p *process) count(r *http.Request) (send, die bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.dead:
		return false, true
	case held(r):
		// Such a call lasts until something happens elsewhere; its end is not a step of the process.
		if r.URL.Host == cloudHost {
			p.polls++
		}
		return true, false
	}
	p.calls = append(p.calls, fmt.Sprintf("%s %s%s", r.Method, r.URL.Host, r.URL.Path))
	die = p.at > 0 && len(p.calls) == p.at
	return !die || p.after, die
}

func held(r *http.Request) bool {
	return r.URL.Query().Get("watch") != "" || r.URL.Query().Get("wait") != "" || strings.Contains(r.URL.Path, "/events")
}

// lose takes the lease from the process: it makes no calls any more, but one that is on its way to the cloud arrives late.
func (p *process) lose(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead, p.late = true, late
}

// straggles returns how much later a call of a dead process arrives; 0 if it does not.
func (p *process) straggles(r *http.Request) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.URL.Host != cloudHost || r.Method == http.MethodGet {
		return 0
	}
	late := p.late
	p.late = 0
	return late
}

// wrap counts the calls of a transport.
func (p *process) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		send, die := p.count(r)
		if late := p.straggles(r); !send && late > 0 {
			time.Sleep(late)
			// The cloud may never answer.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), late)
			defer cancel()
			r, send, die = r.WithContext(ctx), true, true
		}
		if !send {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			p.end()
			return nil, errDead
		}
		response, err := next.RoundTrip(r)
		if die {
			if err == nil {
				_ = response.Body.Close()
			}
			p.end()
			return nil, errDead
		}
		return response, err
	})
}

// end kills the process: no call of it takes effect any more.
func (p *process) end() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.kill()
}

// roundTripper adapts a function to an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
