package store

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func open(t *testing.T) (*File, *clocktesting.FakePassiveClock, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	clock := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	s, err := Open(path, clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, clock, path
}

func update(t *testing.T, s *File, fn func(tx *Tx) error) {
	t.Helper()
	if err := s.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func TestOneServerAtATime(t *testing.T) {
	s, clock, path := open(t)
	if _, err := Open(path, clock); !errors.Is(err, ErrInUse) {
		t.Errorf("a second server: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path, clock)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
