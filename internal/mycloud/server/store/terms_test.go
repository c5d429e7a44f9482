package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// TestStateWithoutIndex: the state of a version that had no index gets one.
func TestStateWithoutIndex(t *testing.T) {
	s, clock, path := open(t)
	update(t, s, func(tx *Tx) error {
		_, err := Instances.Put(tx, &cloudv1.Instance{
			Object: cloudv1.Object{ID: "a", Tags: map[string]string{"env": "dev"}}, Hostname: "x",
		})
		return err
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(termsBucket)) }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path, clock); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for _, term := range []Term{NameTerm("x"), TagTerm("env", "dev")} {
		err := s.View(func(tx *Tx) error {
			if d := cmp.Diff([]string{"a"}, Instances.Find(tx, term)); d != "" {
				t.Errorf("%q (-want +got):\n%s", term, d)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
