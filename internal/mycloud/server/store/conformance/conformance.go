// Package conformance tests what every store of the cloud's state guarantees.
package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/store"
)

// Opener opens a new state. The test closes it.
type Opener func(*testing.T, clock.PassiveClock) store.Store

// Test runs the suite.
func Test(t *testing.T, open Opener) {
	for name, test := range map[string]func(*testing.T, Opener){
		"revisions": revisions, "failed updates leave nothing": failedUpdatesLeaveNothing, "answers": answers,
		"changes": changes, "deletions are limited": deletionsAreLimited, "terms": terms,
		"large values": largeValues, "concurrent updates": concurrentUpdates, "backup": backup,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

func opened(t *testing.T, open Opener) (store.Store, *clocktesting.FakePassiveClock) {
	t.Helper()
	c := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	s := open(t, c)
	t.Cleanup(func() { _ = s.Close() })
	return s, c
}

func revisions(t *testing.T, open Opener) {
	s, clock := opened(t, open)
	z := &cloudv1.Zone{Object: cloudv1.Object{ID: "z"}, Region: "r"}
	put := func(want bool) {
		t.Helper()
		update(t, s, func(tx *store.Tx) error {
			changed, err := store.Zones.Put(tx, z)
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
	update(t, s, func(tx *store.Tx) error { return store.Zones.Delete(tx, "z") })
	err := s.View(func(tx *store.Tx) error {
		if tx.Revision() == z.Revision {
			t.Errorf("the revision after a deletion is still %s", z.Revision)
		}
		for since, want := range map[string][2]bool{
			"0": {false, true}, z.Revision: {false, true}, tx.Revision(): {true, true}, "99": {false, false}, "": {false, false},
		} {
			got := [2]bool{store.Zones.UnchangedSince(tx, since), store.Regions.UnchangedSince(tx, since)}
			if got != want {
				t.Errorf("since %q, zones and regions are unchanged: %t", since, got)
			}
		}
		_, err := store.Zones.Get(tx, "z")
		return err
	})
	if _, none := errors.AsType[*store.NotFoundError](err); !none {
		t.Errorf("after the deletion: %v", err)
	}
}

func failedUpdatesLeaveNothing(t *testing.T, open Opener) {
	s, _ := opened(t, open)
	changed := s.Changed()
	boom := errors.New("boom")
	err := s.Update(func(tx *store.Tx) error {
		if err := store.Seeded.Set(tx, "a", "b"); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Error(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = s.Update(func(tx *store.Tx) error {
			_ = store.Seeded.Set(tx, "a", "b")
			panic(boom)
		})
	}()
	update(t, s, func(tx *store.Tx) error {
		if got := store.Seeded.Get(tx, "a"); got != "" {
			t.Errorf("left %q", got)
		}
		return nil
	})
	select {
	case <-changed:
		t.Error("nothing was committed, but Changed fired")
	default:
	}
	update(t, s, func(tx *store.Tx) error { return store.Seeded.Set(tx, "a", "b") })
	select {
	case <-changed:
	default:
		t.Error("Changed did not fire after a commit")
	}
}

func answers(t *testing.T, open Opener) {
	s, clock := opened(t, open)
	keep := func(key string) {
		update(t, s, func(tx *store.Tx) error {
			return tx.KeepAnswer(key, store.Answer{Fingerprint: key, Content: []byte(`{}`)})
		})
	}
	keep("old")
	clock.SetTime(clock.Now().Add(time.Hour))
	keep("new")
	update(t, s, func(tx *store.Tx) error { return tx.DropAnswers(tx.Now.Add(-time.Minute)) })
	found := map[string]bool{}
	update(t, s, func(tx *store.Tx) error {
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

func changes(t *testing.T, open Opener) {
	s, clock := opened(t, open)
	put := func(id, region string) {
		t.Helper()
		update(t, s, func(tx *store.Tx) error {
			_, err := store.Zones.Put(tx, &cloudv1.Zone{Object: cloudv1.Object{ID: id}, Region: region})
			return err
		})
	}
	expect := func(since string, want ...string) {
		t.Helper()
		got, err := changesAfter(t, s, since)
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
	if err := s.Update(func(tx *store.Tx) error {
		if err := store.Zones.Delete(tx, "a"); err != nil {
			return err
		}
		return boom
	}); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if err := s.Rehearse(func(tx *store.Tx) error { return store.Zones.Delete(tx, "a") }); err != nil {
		t.Fatal(err)
	}
	expect("2", "3 a")
	update(t, s, func(tx *store.Tx) error { return store.Zones.Delete(tx, "a") })
	expect("2", "4 -a")
	put("c", "r")
	clock.SetTime(clock.Now().Add(time.Hour))
	update(t, s, func(tx *store.Tx) error { return tx.DropDeletions(tx.Now) })
	expect("4", "5 c")
	for _, unknown := range []string{"3", "6", "", "x", "-1"} {
		if _, err := changesAfter(t, s, unknown); !errors.Is(err, store.ErrUnknownRevision) {
			t.Errorf("since %q: %v", unknown, err)
		}
	}
}

func deletionsAreLimited(t *testing.T, open Opener) {
	s, _ := opened(t, open)
	// Several updates, because a store may limit the time of one.
	const some, updates = 10, 10
	for n := range updates {
		update(t, s, func(tx *store.Tx) error {
			for i := range (store.MaxDeletions + some) / updates {
				id := fmt.Sprint(n, "-", i)
				if _, err := store.Zones.Put(tx, &cloudv1.Zone{Object: cloudv1.Object{ID: id}}); err != nil {
					return err
				}
				if err := store.Zones.Delete(tx, id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	// The tenth deletion has revision 20.
	if _, err := changesAfter(t, s, "19"); !errors.Is(err, store.ErrUnknownRevision) {
		t.Error(err)
	}
	got, err := changesAfter(t, s, "20")
	if err != nil || len(got) != store.MaxDeletions {
		t.Errorf("%d changes, %v", len(got), err)
	}
}

func terms(t *testing.T, open Opener) {
	s, _ := opened(t, open)
	put := func(i *cloudv1.Instance) {
		t.Helper()
		update(t, s, func(tx *store.Tx) error {
			_, err := store.Instances.Put(tx, i)
			return err
		})
	}
	expect := func(term store.Term, want ...string) {
		t.Helper()
		err := s.View(func(tx *store.Tx) error {
			if d := cmp.Diff(append([]string{}, want...), append([]string{}, store.Instances.Find(tx, term)...)); d != "" {
				t.Errorf("%q (-want +got):\n%s", term, d)
			}
			found, err := store.Instances.Having(tx, term)
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
	expect(store.NameTerm("x"), "a")
	expect(store.NameTerm("x\x00y"), "c")
	expect(store.TagTerm("team", "edge"), "a", "b")
	expect(store.TagTerm("team", "core"))
	gone := vm("b", "y", map[string]string{"team": "core", "env": "dev"})
	gone.State = cloudv1.InstanceDeleted
	put(gone)
	expect(store.NameTerm("y"))
	expect(store.TagTerm("team", "edge"), "a")
	expect(store.TagTerm("env", "dev"), "a", "b")
	update(t, s, func(tx *store.Tx) error { return store.Instances.Delete(tx, "b") })
	expect(store.TagTerm("env", "dev"), "a")
}

// changesAfter returns the changes after a revision as "revision id" or "revision -id", or the error.
func changesAfter(t *testing.T, s store.Store, since string) ([]string, error) {
	t.Helper()
	all := []string{}
	err := s.View(func(tx *store.Tx) error {
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

func update(t *testing.T, s store.Store, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := s.Update(fn); err != nil {
		t.Fatal(err)
	}
}

// largeValues writes values of all sizes around the limits of stores, in one update and over each other.
func largeValues(t *testing.T, open Opener) {
	s, _ := opened(t, open)
	sizes := []int{0, 1, 32 << 10, 32<<10 + 1, 512 << 10, 512<<10 + 1, 3 << 20}
	for round := range sizes {
		update(t, s, func(tx *store.Tx) error {
			for i := range sizes {
				n := sizes[(i+round)%len(sizes)]
				// Keys that begin like others must not take their values.
				if err := store.Seeded.Set(tx, strings.Repeat("key/", i+1), strings.Repeat(fmt.Sprint(round), n)); err != nil {
					return err
				}
			}
			return store.Seeded.Delete(tx, "key/")
		})
		if err := s.Current(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := s.View(func(tx *store.Tx) error {
			for i := range sizes {
				n := sizes[(i+round)%len(sizes)]
				if i == 0 {
					n = 0
				}
				if got := store.Seeded.Get(tx, strings.Repeat("key/", i+1)); got != strings.Repeat(fmt.Sprint(round), n) {
					t.Errorf("round %d, value %d: %d bytes instead of %d", round, i, len(got), n)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// concurrentUpdates increments numbers from several goroutines: none may be lost.
func concurrentUpdates(t *testing.T, open Opener) {
	s, _ := opened(t, open)
	const workers, increments = 8, 10
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range increments {
				err := s.Update(func(tx *store.Tx) error {
					n, _ := strconv.Atoi(store.Seeded.Get(tx, "n"))
					return store.Seeded.Set(tx, "n", strconv.Itoa(n+1))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	err := s.View(func(tx *store.Tx) error {
		if got, want := store.Seeded.Get(tx, "n"), strconv.Itoa(workers*increments); got != want {
			t.Errorf("%s increments are left of %s", got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// backup opens a backup: it has the state, which goes on in a new history.
func backup(t *testing.T, open Opener) {
	s, c := opened(t, open)
	put := func(s store.Store, id string) (revision string) {
		t.Helper()
		update(t, s, func(tx *store.Tx) error {
			_, err := store.Zones.Put(tx, &cloudv1.Zone{Object: cloudv1.Object{ID: id}})
			return err
		})
		err := s.View(func(tx *store.Tx) error {
			revision = tx.Revision()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return revision
	}
	before := put(s, "a")
	file, err := os.Create(filepath.Join(t.TempDir(), "backup.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Backup(file), file.Close()); err != nil {
		t.Fatal(err)
	}
	lost := put(s, "b")
	restored, err := store.Open(file.Name(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = restored.Close() })
	put(restored, "c")
	if got, err := changesAfter(t, restored, before); err != nil || !cmp.Equal([]string{"2 c"}, got) {
		t.Errorf("after the backup: %v, %v", got, err)
	}
	if _, err := changesAfter(t, restored, lost); !errors.Is(err, store.ErrUnknownRevision) {
		t.Errorf("after a lost revision: %v", err)
	}
}
