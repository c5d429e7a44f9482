package store

import (
	"errors"
	"path/filepath"
	"testing"

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
