package access

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/store"
)

// lateStore is a state that servers share: what others commit is visible once it is current.
type lateStore struct {
	store.Store

	reads atomic.Int64
	// late runs when the state becomes current.
	late func()
	err  error
}

func (s *lateStore) Current(context.Context) error {
	s.reads.Add(1)
	if s.late != nil {
		s.late()
	}
	return s.err
}

func newLateStore(t *testing.T) *lateStore {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state.db"), clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &lateStore{Store: s}
}

func newTokens(s *lateStore) *Tokens {
	c := clock.RealClock{}
	return &Tokens{Client: "client", Store: s, Stranger: NewStranger(s, c), Clock: c, Logger: slog.New(slog.DiscardHandler)}
}

// ask returns the status of a request with a token, and with none if it is empty.
func ask(t *testing.T, h http.Handler, token string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/meta", http.NoBody)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

var ok = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func create(t *testing.T, s store.Store, id, secret string) {
	t.Helper()
	err := s.Update(func(tx *store.Tx) error {
		token := &cloudv1.Token{Object: cloudv1.Object{ID: id, Name: id}, TokenFields: cloudv1.TokenFields{Role: "read"}}
		_, err := store.Tokens.Put(tx, token)
		return errors.Join(err, Keep(tx, id, secret))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStrangersShareReads: requests without a valid token do not cost a read of the shared state each.
func TestStrangersShareReads(t *testing.T) {
	t.Parallel()
	s := newLateStore(t)
	h := newTokens(s).Authenticate(ok)
	for range 100 {
		if code := ask(t, h, ""); code != http.StatusUnauthorized {
			t.Fatalf("without a token: %d", code)
		}
		if code := ask(t, h, "client"); code != http.StatusOK {
			t.Fatalf("with a token: %d", code)
		}
	}
	if n := s.reads.Load(); n != 0 {
		t.Errorf("%d reads for requests that need none", n)
	}
	start := time.Now()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 3 {
				if code := ask(t, h, "guess"); code != http.StatusUnauthorized {
					t.Errorf("with a wrong token: %d", code)
				}
			}
		})
	}
	wg.Wait()
	// One may have begun when the first request arrived, and another one for those that came during it.
	if n, most := s.reads.Load(), int64(time.Since(start)/strangerPause)+2; n > most || n == 0 {
		t.Errorf("%d reads for 150 requests in %s; want at most %d", n, time.Since(start), most)
	}
}

// TestTokensOfOtherServers: a server knows a token that another one has created a moment ago, and not one that another one
// has deleted.
func TestTokensOfOtherServers(t *testing.T) {
	t.Parallel()
	s := newLateStore(t)
	tokens := newTokens(s)
	secret := NewSecret("tok-1")
	s.late = sync.OnceFunc(func() { create(t, s.Store, "tok-1", secret) })
	if code := ask(t, tokens.Authenticate(ok), secret); code != http.StatusOK {
		t.Errorf("a token of another server: %d", code)
	}
	s.late = sync.OnceFunc(func() {
		if err := s.Update(func(tx *store.Tx) error { return Revoke(tx, "tok-1") }); err != nil {
			t.Error(err)
		}
	})
	current := func(w http.ResponseWriter, r *http.Request) {
		_ = s.Current(r.Context())
		tokens.Confirm(ok).ServeHTTP(w, r)
	}
	if code := ask(t, tokens.Authenticate(http.HandlerFunc(current)), secret); code != http.StatusUnauthorized {
		t.Errorf("a token that another server has deleted: %d", code)
	}
	s.err = store.ErrUnavailable
	if code := ask(t, tokens.Authenticate(ok), NewSecret("tok-2")); code != http.StatusServiceUnavailable {
		t.Errorf("an unknown token while the state cannot be reached: %d", code)
	}
}
