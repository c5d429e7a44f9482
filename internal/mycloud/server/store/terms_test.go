package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

func TestTerms(t *testing.T) {
	s, clock, path := open(t)
	put := func(i *cloudv1.Instance) {
		t.Helper()
		update(t, s, func(tx *Tx) error {
			_, err := Instances.Put(tx, i)
			return err
		})
	}
	expect := func(term Term, want ...string) {
		t.Helper()
		err := s.View(func(tx *Tx) error {
			if d := cmp.Diff(append([]string{}, want...), append([]string{}, Instances.Find(tx, term)...)); d != "" {
				t.Errorf("%q (-want +got):\n%s", term, d)
			}
			found, err := Instances.Having(tx, term)
			if len(found) != len(want) {
				t.Errorf("%q: %d objects", term, len(found))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	vm := func(id, hostname string, tags map[string]string) *cloudv1.Instance {
		return &cloudv1.Instance{Object: cloudv1.Object{ID: id, Tags: tags}, Hostname: hostname}
	}
	edge := map[string]string{"team": "edge", "env": "dev"}
	put(vm("a", "x", edge))
	put(vm("b", "y", edge))
	// A zero byte must not make one name look like the beginning of another.
	put(vm("c", "x\x00y", map[string]string{"team": "edge2"}))
	expect(NameTerm("x"), "a")
	expect(NameTerm("x\x00y"), "c")
	expect(TagTerm("team", "edge"), "a", "b")
	expect(TagTerm("team", "core"))
	gone := vm("b", "y", map[string]string{"team": "core", "env": "dev"})
	gone.State = cloudv1.InstanceDeleted
	put(gone)
	expect(NameTerm("y"))
	expect(TagTerm("team", "edge"), "a")
	expect(TagTerm("env", "dev"), "a", "b")
	update(t, s, func(tx *Tx) error { return Instances.Delete(tx, "b") })
	expect(TagTerm("env", "dev"), "a")

	// The state of a version that had no index gets one.
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
	expect(NameTerm("x"), "a")
	expect(TagTerm("env", "dev"), "a")
}
