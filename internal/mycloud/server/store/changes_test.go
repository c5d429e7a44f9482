package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// changes returns the changes after a revision as "revision id" or "revision -id", or the error.
func changes(t *testing.T, s *File, since string) ([]string, error) {
	t.Helper()
	all := []string{}
	err := s.View(func(tx *Tx) error {
		seq, err := tx.Changes(since)
		if err != nil {
			return err
		}
		for c, err := range seq {
			if err != nil {
				return err
			}
			sign := ""
			if c.Deleted {
				sign = "-"
			}
			all = append(all, c.Revision+" "+sign+c.ID)
		}
		return nil
	})
	return all, err
}

func TestChanges(t *testing.T) {
	s, clock, _ := open(t)
	put := func(id, region string) {
		t.Helper()
		update(t, s, func(tx *Tx) error {
			_, err := Zones.Put(tx, &cloudv1.Zone{Object: cloudv1.Object{ID: id}, Region: region})
			return err
		})
	}
	expect := func(since string, want ...string) {
		t.Helper()
		got, err := changes(t, s, since)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(append([]string{}, want...), got); d != "" {
			t.Errorf("since %s (-want +got):\n%s", since, d)
		}
	}
	expect("0")
	put("a", "r")
	put("b", "r")
	put("b", "r")
	put("a", "s")
	expect("0", "2 b", "3 a")
	expect("2", "3 a")
	boom := errors.New("boom")
	if err := s.Update(func(tx *Tx) error {
		if err := Zones.Delete(tx, "a"); err != nil {
			return err
		}
		return boom
	}); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if err := s.Rehearse(func(tx *Tx) error { return Zones.Delete(tx, "a") }); err != nil {
		t.Fatal(err)
	}
	expect("2", "3 a")
	update(t, s, func(tx *Tx) error { return Zones.Delete(tx, "a") })
	expect("2", "4 -a")
	put("c", "r")
	clock.SetTime(clock.Now().Add(time.Hour))
	update(t, s, func(tx *Tx) error { return tx.DropDeletions(tx.Now) })
	expect("4", "5 c")
	for _, unknown := range []string{"3", "6", "", "x", "-1"} {
		if _, err := changes(t, s, unknown); !errors.Is(err, ErrUnknownRevision) {
			t.Errorf("since %q: %v", unknown, err)
		}
	}
}

func TestDeletionsAreLimited(t *testing.T) {
	s, _, _ := open(t)
	const some = 10
	update(t, s, func(tx *Tx) error {
		for i := range maxDeletions + some {
			id := fmt.Sprint(i)
			if _, err := Zones.Put(tx, &cloudv1.Zone{Object: cloudv1.Object{ID: id}}); err != nil {
				return err
			}
			if err := Zones.Delete(tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	// The tenth deletion has revision 20.
	if _, err := changes(t, s, "19"); !errors.Is(err, ErrUnknownRevision) {
		t.Error(err)
	}
	got, err := changes(t, s, "20")
	if err != nil || len(got) != maxDeletions {
		t.Errorf("%d changes, %v", len(got), err)
	}
}

// TestStateWithoutLog opens a state of a version that had no log of changes.
func TestStateWithoutLog(t *testing.T) {
	s, clock, path := open(t)
	put := func(s *File, region string) {
		t.Helper()
		update(t, s, func(tx *Tx) error {
			_, err := Zones.Put(tx, &cloudv1.Zone{Object: cloudv1.Object{ID: "a"}, Region: region})
			return err
		})
	}
	put(s, "r")
	put(s, "s")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(filepath.Clean(path), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(changesBucket)) }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path, clock); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := changes(t, s, "1"); !errors.Is(err, ErrUnknownRevision) {
		t.Errorf("before the log: %v", err)
	}
	put(s, "t")
	got, err := changes(t, s, "2")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"3 a"}, got); d != "" {
		t.Error(d)
	}
}
