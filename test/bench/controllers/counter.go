package main

import (
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// tally counts requests to the cloud.
type tally struct {
	// reads and writes are requests, lbs those among them for load balancers and node groups; polls are requests for
	// changes, which the cloud holds until there is one, and not among reads.
	reads, writes, lbs, polls int
	// routes has all of them by method and path, ids left out.
	routes map[string]int
}

func (t tally) calls() int { return t.reads + t.writes }

// counter passes the requests of the controllers on to the cloud and counts them.
type counter struct {
	proxy *httputil.ReverseProxy

	mu   sync.Mutex
	now  tally
	last time.Time
}

func newCounter(endpoint string) (*counter, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 100},
		// A controller that ends cancels its requests.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	c := &counter{proxy: proxy}
	c.reset()
	return c, nil
}

// ServeHTTP counts a request and passes it on.
func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.count(r)
	c.proxy.ServeHTTP(w, r)
}

func (c *counter) count(r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	kind, rest, deep := strings.Cut(path, "/")
	if deep {
		if _, action, found := strings.Cut(rest, ":"); found {
			kind += "/{id}:" + action
		} else {
			kind += "/{id}"
		}
	}
	c.now.routes[r.Method+" "+kind]++
	switch {
	case r.URL.Query().Get("wait") != "":
		c.now.polls++
		return
	case r.Method == http.MethodGet || strings.HasSuffix(path, ":lookup"):
		c.now.reads++
	default:
		c.now.writes++
	}
	if strings.HasPrefix(kind, "load-balancers") || strings.HasPrefix(kind, "node-groups") {
		c.now.lbs++
	}
	c.last = time.Now()
}

// reset begins to count from zero.
func (c *counter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.last = tally{routes: map[string]int{}}, time.Now()
}

// read returns what was counted since reset, and for how long there was no request that counts as a call.
func (c *counter) read() (tally, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now
	now.routes = maps.Clone(now.routes)
	return now, time.Since(c.last)
}
