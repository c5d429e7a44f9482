package page

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/store"
)

func openStore(t *testing.T) *store.File {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state.db"), clocktesting.NewFakeClock(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// zones writes some zones, one revision each.
func zones(t *testing.T, s *store.File, from, to int) {
	t.Helper()
	err := s.Update(func(tx *store.Tx) error {
		for n := from; n < to; n++ {
			id := fmt.Sprintf("zone-%d", n)
			if _, err := store.Zones.Put(tx, &cloudv1.Zone{Object: cloudv1.Object{ID: id, Name: id}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestMirrorStaysAhead: a snapshot that is older than the mirror does not make it read everything again.
func TestMirrorStaysAhead(t *testing.T) {
	s := openStore(t)
	zones(t, s, 0, 100)
	short := 0
	m := newMirror(store.Zones, func(z *cloudv1.Zone) string {
		short++
		return z.ID
	}, func(a, b string) int { return len(a) - len(b) })
	look := func(tx *store.Tx) error {
		got, err := m.all(tx)
		if len(got) != 101 {
			t.Errorf("%d zones", len(got))
		}
		return err
	}
	err := s.View(func(old *store.Tx) error {
		zones(t, s, 100, 101)
		for range 3 {
			if err := s.View(look); err != nil {
				return err
			}
			if err := look(old); err != nil {
				return err
			}
		}
		if short != 101 {
			t.Errorf("read %d zones, want 101", short)
		}
		// A state that was restored is not an older one.
		old.Now = old.Now.Add(mostBefore)
		got, err := m.all(old)
		if len(got) != 100 {
			t.Errorf("%d zones of a restored state", len(got))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLaterRows: what a snapshot does not have yet is not listed.
func TestLaterRows(t *testing.T) {
	show := func(*store.Tx) func(*cloudv1.LoadBalancer) error {
		return func(*cloudv1.LoadBalancer) error { return nil }
	}
	p := &Page{Options: Options{LoadBalancerView: read.View[cloudv1.LoadBalancer]{Show: show}}}
	if err := openStore(t).View(func(tx *store.Tx) error {
		lines, err := p.lines(tx, []row{{ID: "lb-later"}}, nil)
		if len(lines) > 0 {
			t.Errorf("%+v", lines)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestLag: what an edge lacks is counted, but not however much else has changed.
func TestLag(t *testing.T) {
	s := openStore(t)
	zones(t, s, 0, 10)
	balancer := func(id string) {
		if err := s.Update(func(tx *store.Tx) error {
			_, err := store.LoadBalancers.Put(tx, &cloudv1.LoadBalancer{Object: cloudv1.Object{ID: id, Name: id}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	const many = 10 + 2*mostChanges
	for _, step := range []struct {
		what    string
		change  func()
		applied uint64
		want    lag
	}{
		{"only what edges do not follow", func() { zones(t, s, 10, many) }, 5, lag{}},
		{"much else before a load balancer", func() { balancer("lb-1") }, 5, lag{More: true}},
		{"the load balancer", func() {}, many, lag{Changes: 1}},
		{"the load balancer before much else", func() { zones(t, s, many, 2*many) }, many, lag{Changes: 1}},
		{"much else between load balancers", func() { balancer("lb-2") }, many, lag{Changes: 1, More: true}},
	} {
		step.change()
		if err := s.View(func(tx *store.Tx) error {
			got, err := (&Page{}).lag(tx, &edges.Edge{Applied: step.applied})
			if got.Changes != step.want.Changes || got.More != step.want.More || got.Since.IsZero() != (got.Changes == 0) {
				t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
