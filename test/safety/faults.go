package safety

import (
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// intercept answers a request in place of the cloud and returns true, or returns false.
type intercept func(http.ResponseWriter, *http.Request) bool

func faultNames() []string { return slices.Sorted(maps.Keys(faults())) }

// faults are the ways in which the cloud fails. Each affects a share of the requests.
func faults() map[string]func(*rand.Rand) intercept {
	return map[string]func(*rand.Rand) intercept{
		"500":             answered(problem(http.StatusInternalServerError, cloudv1.CodeInternal, "")),
		"503":             answered(problem(http.StatusServiceUnavailable, cloudv1.CodeUnavailable, "3")),
		"429":             answered(problem(http.StatusTooManyRequests, cloudv1.CodeRateLimited, "31536000")),
		"401":             answered(problem(http.StatusUnauthorized, cloudv1.CodeUnauthenticated, "")),
		"409":             answered(problem(http.StatusConflict, cloudv1.CodeLocked, "")),
		"412":             answered(problem(http.StatusPreconditionFailed, cloudv1.CodeStaleRevision, "")),
		"false not found": answeredReads(problem(http.StatusNotFound, cloudv1.CodeResourceNotFound, "")),
		"a proxy's 404":   answered(page(http.StatusNotFound)),
		"a proxy's 200":   answered(page(http.StatusOK)),
		"no answer":       answered(silent),
		"slow":            slow,
		"reset":           answered(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		"empty lists":     answeredReads(emptyList),
	}
}

// answered gives the answer to about a third of the requests.
func answered(answer http.HandlerFunc) func(*rand.Rand) intercept {
	return func(random *rand.Rand) intercept {
		hit := oneIn(3, random)
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !hit() {
				return false
			}
			answer(w, r)
			return true
		}
	}
}

// oneIn returns a function that is true once in n calls, and may be called at the same time.
func oneIn(n int, random *rand.Rand) func() bool {
	var mu sync.Mutex
	own := rand.New(rand.NewPCG(random.Uint64(), 0)) //nolint:gosec // a game, no secret
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return own.IntN(n) == 0
	}
}

// answeredReads gives the answer to about a twentieth of the reads.
func answeredReads(answer http.HandlerFunc) func(*rand.Rand) intercept {
	return func(random *rand.Rand) intercept {
		hit := oneIn(20, random)
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !hit() {
				return false
			}
			answer(w, r)
			return true
		}
	}
}

// silent never answers. The server only notices that the client has gone once it has read the request.
func silent(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func slow(random *rand.Rand) intercept {
	delay := time.Duration(random.IntN(20)) * time.Second
	return func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
		}
		return false
	}
}

func problem(status int, code, retryAfter string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", cloudv1.MediaTypeProblem)
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(cloudv1.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code})
	}
}

func page(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html><body>Please log in.</body></html>")
	}
}

// emptyList answers lists as if the cloud had nothing, and other reads not at all.
func emptyList(w http.ResponseWriter, r *http.Request) {
	if strings.Count(r.URL.Path, "/") > 2 {
		problem(http.StatusServiceUnavailable, cloudv1.CodeUnavailable, "")(w, r)
		return
	}
	w.Header().Set("Content-Type", cloudv1.MediaTypeJSON)
	_ = json.NewEncoder(w).Encode(cloudv1.List[cloudv1.LoadBalancer]{Items: []cloudv1.LoadBalancer{}, Revision: "1000000", Complete: true})
}
