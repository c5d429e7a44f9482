package fault

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"strconv"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// page is the body of the fault html.
const page = "<html><head><title>Gateway</title></head><body><h1>The upstream server is not available</h1></body></html>\n"

// Wrap returns a handler that injects the faults of the plan into next.
func (i *Injector) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chosen, fires := i.request(r)
		switch {
		case chosen == nil:
			next.ServeHTTP(w, r)
		case !fires:
			chosen.record(next, r).send(w)
		default:
			i.inject(chosen, w, r, next)
		}
	})
}

func (i *Injector) inject(f *rule, w http.ResponseWriter, r *http.Request, next http.Handler) {
	if !i.pause(r, f.Delay.Duration) {
		panic(http.ErrAbortHandler)
	}
	var answer *recording
	switch {
	case f.Fault == Stale:
		answer = f.record(next, r)
	case f.Commit || f.Fault == None || f.Fault == Truncate:
		answer = record(next, r)
	}
	if !i.pause(r, f.Lag.Duration) {
		panic(http.ErrAbortHandler)
	}
	switch f.Fault {
	case None, Stale:
		answer.send(w)
	case Status:
		status := cmp.Or(f.Status, http.StatusServiceUnavailable)
		f.retryAfter(w, status)
		sendProblem(w, r, problem(status, cmp.Or(f.Code, cloudv1.CodeUnavailable)))
	case NotFound:
		sendProblem(w, r, problem(http.StatusNotFound, cloudv1.CodeResourceNotFound))
	case HTML:
		status := cmp.Or(f.Status, http.StatusBadGateway)
		f.retryAfter(w, status)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(page))
	case Truncate:
		answer.truncate(w)
	case Reset:
		reset(w)
	}
}

// pause waits unless the client goes away, which it reports with false.
func (i *Injector) pause(r *http.Request, d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := i.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-r.Context().Done():
		return false
	}
}

func (r Rule) retryAfter(w http.ResponseWriter, status int) {
	d := r.RetryAfter.Duration
	if d == 0 && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		d = time.Second
	}
	if d > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((d+time.Second-1)/time.Second)))
	}
}

func sendProblem(w http.ResponseWriter, r *http.Request, p cloudv1.Problem) {
	p.Instance, p.RequestID = r.URL.Path, r.Header.Get(cloudv1.HeaderRequestID)
	w.Header().Set("Content-Type", cloudv1.MediaTypeProblem)
	w.WriteHeader(p.Status)
	// This fails only if the client is gone.
	_ = json.NewEncoder(w).Encode(p)
}

// reset closes the connection; the client's system reports it as reset by the peer.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// recording is a response that was not sent yet.
type recording struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header of the response.
func (a *recording) Header() http.Header { return a.header }

// WriteHeader records the status.
func (a *recording) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write records a part of the body.
func (a *recording) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// record handles a request and returns the response.
func record(next http.Handler, r *http.Request) *recording {
	a := &recording{header: http.Header{}}
	next.ServeHTTP(a, r)
	a.WriteHeader(http.StatusOK)
	return a
}

// record returns the first successful response to a read. A client that has a revision gets the whole response, too.
func (r *rule) record(next http.Handler, req *http.Request) *recording {
	r.mu.Lock()
	known := r.recordings[req.URL.RequestURI()]
	r.mu.Unlock()
	if known != nil {
		return known
	}
	whole := req.Clone(req.Context())
	whole.Header.Del("If-None-Match")
	a := record(next, whole)
	if a.status == http.StatusOK {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.recordings[req.URL.RequestURI()] = a
	}
	return a
}

func (a *recording) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
}

// truncate sends the first half of the body and breaks off.
func (a *recording) truncate(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.Header().Set("Content-Length", strconv.Itoa(max(a.body.Len(), 1)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()[:a.body.Len()/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
