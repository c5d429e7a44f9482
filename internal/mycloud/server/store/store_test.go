package store

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
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

func TestRevisions(t *testing.T) {
	s, clock, _ := open(t)
	z := &cloudv1.Zone{Object: cloudv1.Object{ID: "z"}, Region: "r"}
	put := func(want bool) {
		t.Helper()
		update(t, s, func(tx *Tx) error {
			changed, err := Zones.Put(tx, z)
			if changed != want {
				t.Errorf("changed = %t", changed)
			}
			return err
		})
	}
	put(true)
	first := *z
	clock.SetTime(clock.Now().Add(time.Hour))
	z = &cloudv1.Zone{Object: cloudv1.Object{ID: "z"}, Region: "r"}
	put(false)
	if d := cmp.Diff(first, *z); d != "" {
		t.Errorf("the unchanged object differs (-want +got):\n%s", d)
	}
	z.Region = "s"
	put(true)
	if z.Revision == first.Revision || z.CreatedAt != first.CreatedAt || z.UpdatedAt == first.UpdatedAt {
		t.Errorf("was %+v, is %+v", first.Object, z.Object)
	}
	update(t, s, func(tx *Tx) error { return Zones.Delete(tx, "z") })
	err := s.View(func(tx *Tx) error {
		if tx.Revision() == z.Revision {
			t.Errorf("the revision after a deletion is still %s", z.Revision)
		}
		for since, want := range map[string][2]bool{
			"0": {false, true}, z.Revision: {false, true}, tx.Revision(): {true, true}, "99": {false, false}, "": {false, false},
		} {
			got := [2]bool{Zones.UnchangedSince(tx, since), Regions.UnchangedSince(tx, since)}
			if got != want {
				t.Errorf("since %q, zones and regions are unchanged: %t", since, got)
			}
		}
		_, err := Zones.Get(tx, "z")
		return err
	})
	if _, none := errors.AsType[*NotFoundError](err); !none {
		t.Errorf("after the deletion: %v", err)
	}
}

func TestFailedUpdatesLeaveNothing(t *testing.T) {
	s, _, _ := open(t)
	changed := s.Changed()
	boom := errors.New("boom")
	err := s.Update(func(tx *Tx) error {
		if err := Seeded.Set(tx, "a", "b"); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Error(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = s.Update(func(tx *Tx) error {
			_ = Seeded.Set(tx, "a", "b")
			panic(boom)
		})
	}()
	update(t, s, func(tx *Tx) error {
		if got := Seeded.Get(tx, "a"); got != "" {
			t.Errorf("left %q", got)
		}
		return nil
	})
	select {
	case <-changed:
		t.Error("nothing was committed, but Changed fired")
	default:
	}
	update(t, s, func(tx *Tx) error { return Seeded.Set(tx, "a", "b") })
	select {
	case <-changed:
	default:
		t.Error("Changed did not fire after a commit")
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

func TestAnswers(t *testing.T) {
	s, clock, _ := open(t)
	keep := func(key string) {
		update(t, s, func(tx *Tx) error { return tx.KeepAnswer(key, Answer{Fingerprint: key, Content: []byte(`{}`)}) })
	}
	keep("old")
	clock.SetTime(clock.Now().Add(time.Hour))
	keep("new")
	update(t, s, func(tx *Tx) error { return tx.DropAnswers(tx.Now.Add(-time.Minute)) })
	found := map[string]bool{}
	update(t, s, func(tx *Tx) error {
		for _, key := range []string{"old", "new", "none"} {
			a, ok, err := tx.Answer(key)
			if err != nil {
				return err
			}
			if ok && a.Fingerprint != key {
				t.Errorf("under %s: %+v", key, a)
			}
			found[key] = ok
		}
		return nil
	})
	if d := cmp.Diff(map[string]bool{"old": false, "new": true, "none": false}, found); d != "" {
		t.Error(d)
	}
}
