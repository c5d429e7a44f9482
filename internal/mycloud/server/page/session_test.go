package page

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/certificate"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/history"
	"quaymaster.dev/internal/mycloud/server/store"
)

// cut is a state that other servers may have changed, and that cannot be reached.
type cut struct {
	store.Store

	err error
	// follow makes the changes of other servers.
	follow func()
}

func (c *cut) Current(context.Context) error {
	if c.follow != nil {
		c.follow()
	}
	return c.err
}

// site is a page of an empty cloud.
type site struct {
	*testing.T
	http.Handler

	clock  *clocktesting.FakeClock
	state  *cut
	tokens map[string]bool
	// asked is called whenever a token is looked at, unless it is nil.
	asked func()
	// limited is how often a request went through the limit.
	limited int
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, clock: clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)), tokens: map[string]bool{"sesame": true}}
	file, err := store.Open(filepath.Join(t.TempDir(), "state.db"), s.clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	s.state = &cut{Store: file}
	key, err := certificate.NewCipher(base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	known := edges.New(s.clock, 2*time.Second)
	p := New(Options{
		Store: s.state, Clock: s.clock, Edges: known, History: history.New(s.clock, known, nil), Cipher: key,
		Logger: slog.New(slog.DiscardHandler),
		MayRead: func(token string) (bool, error) {
			if s.asked != nil {
				s.asked()
			}
			return s.tokens[token], nil
		},
		LoadBalancerView: read.View[cloudv1.LoadBalancer]{Show: func(*store.Tx) func(*cloudv1.LoadBalancer) error {
			return func(*cloudv1.LoadBalancer) error { return nil }
		}},
	})
	s.Handler = p.Handler(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.limited++
			next.ServeHTTP(w, r)
		})
	})
	return s
}

// get returns the response for a session: the overview, or another page.
func (s *site) get(session *http.Cookie, path ...string) *httptest.ResponseRecorder {
	s.Helper()
	r := httptest.NewRequestWithContext(s.Context(), http.MethodGet, cmp.Or(strings.Join(path, ""), "/ui/"), http.NoBody)
	if session != nil {
		r.AddCookie(session)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// login returns the cookie of a new session.
func (s *site) login(token string, over *tls.ConnectionState) *http.Cookie {
	s.Helper()
	w := s.post(token, over)
	cookies := w.Result().Cookies()
	if len(cookies) != 1 {
		s.Fatalf("login: %d %s", w.Code, w.Body)
	}
	return cookies[0]
}

// post returns the response to a login.
func (s *site) post(token string, over *tls.ConnectionState) *httptest.ResponseRecorder {
	s.Helper()
	r := httptest.NewRequestWithContext(s.Context(), http.MethodPost, "/ui/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.TLS = over
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// TestLongSearches: a search that would cost much is refused, not shortened.
func TestLongSearches(t *testing.T) {
	s := newSite(t)
	session := s.login("sesame", nil)
	for _, list := range []string{"/ui/search", "/ui/load-balancers"} {
		for query, status := range map[string]int{
			strings.Repeat("ä", 200): http.StatusOK, strings.Repeat("ä", 201): http.StatusBadRequest,
			strings.Repeat("a ", 10): http.StatusOK, strings.Repeat("a ", 11): http.StatusBadRequest,
		} {
			w := s.get(session, list+"?q="+url.QueryEscape(query))
			if w.Code != status || status != http.StatusOK && !strings.Contains(w.Body.String(), "A search has at most") {
				t.Errorf("%s for %q: %d %s", list, query, w.Code, w.Body)
			}
		}
	}
}

// TestSessionsEnd: after twelve hours, or with the token.
func TestSessionsEnd(t *testing.T) {
	s := newSite(t)
	session := s.login("sesame", nil)
	for _, step := range []struct {
		what   string
		change func()
		status int
	}{
		{"a new session", func() {}, http.StatusOK},
		{"shortly before its end", func() { s.clock.Step(12*time.Hour - time.Second) }, http.StatusOK},
		{"after its end", func() { s.clock.Step(time.Second) }, http.StatusSeeOther},
	} {
		step.change()
		if w := s.get(session); w.Code != step.status {
			t.Errorf("%s: %d", step.what, w.Code)
		}
	}
	session = s.login("sesame", nil)
	s.tokens["sesame"] = false
	if w := s.get(session); w.Code != http.StatusSeeOther {
		t.Errorf("after the token was revoked: %d", w.Code)
	}
}

// TestOtherServers: a token that another server has just revoked ends a session, and one that it has just created begins one.
func TestOtherServers(t *testing.T) {
	s := newSite(t)
	session := s.login("sesame", nil)
	for path, status := range map[string]int{"/ui/": http.StatusSeeOther, "/ui/series": http.StatusUnauthorized} {
		s.tokens["sesame"] = true
		s.state.follow = func() { s.tokens["sesame"] = false }
		if w := s.get(session, path); w.Code != status {
			t.Errorf("%s with a revoked token: %d", path, w.Code)
		}
	}
	s.state.follow = func() { s.tokens["new"] = true }
	if w := s.post("new", nil); w.Code != http.StatusSeeOther {
		t.Errorf("login with a new token: %d", w.Code)
	}
}

// TestGuessesAtOnce: attempts count before they have failed, and those that succeed do not count.
func TestGuessesAtOnce(t *testing.T) {
	s := newSite(t)
	for range 2 * loginBurst {
		s.login("sesame", nil)
	}
	begun, failed := 0, 0
	s.asked = func() {
		if begun++; begun < 2*loginBurst && s.post("guess", nil).Code == http.StatusForbidden {
			failed++
		}
	}
	s.post("guess", nil)
	if failed != loginBurst-1 {
		t.Errorf("%d guesses at once have failed besides the first, want %d", failed, loginBurst-1)
	}
}

// TestSecureCookie: over HTTPS, the cookie is never sent in the clear.
func TestSecureCookie(t *testing.T) {
	s := newSite(t)
	if s.login("sesame", nil).Secure || !s.login("sesame", &tls.ConnectionState{}).Secure {
		t.Error("cookies over HTTP and HTTPS must differ")
	}
}

// TestLimits: only requests of those who are logged in count, so that strangers do not use up what clients may send.
func TestLimits(t *testing.T) {
	s := newSite(t)
	s.get(nil)
	if s.limited != 0 {
		t.Error("the request of a stranger has counted")
	}
	s.get(s.login("sesame", nil))
	if s.limited != 1 {
		t.Errorf("%d requests have counted", s.limited)
	}
}

// TestStale: while the state cannot be reached, the page shows what it knows, and says so.
func TestStale(t *testing.T) {
	s := newSite(t)
	session := s.login("sesame", nil)
	const warning = "This may be out of date."
	if w := s.get(session); strings.Contains(w.Body.String(), warning) {
		t.Error("the page warns although the state is current")
	}
	s.state.err = errors.New("etcd does not answer")
	if w := s.get(session); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), warning) || !strings.Contains(w.Body.String(), "etcd does not answer") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestSource(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:1234": "192.0.2.7", "[::ffff:192.0.2.7]:1": "192.0.2.7", "[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64", "[fe80::1%eth0]:5": "fe80::/64", "x": "x",
	} {
		if got := source(remote); got != want {
			t.Errorf("source(%q) = %q, want %q", remote, got, want)
		}
	}
}
