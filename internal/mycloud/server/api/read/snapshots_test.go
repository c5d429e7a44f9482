package read

import (
	"errors"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/failure"
)

// TestSnapshotsAreBounded keeps lists until there is no room, which ends the oldest.
func TestSnapshotsAreBounded(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	s := newSnapshots(clock, 10_000)
	var owner access.Caller
	first := func(kind string, size int) string {
		t.Helper()
		l, err := firstPage(s, owner, kind, []string{strings.Repeat("x", size), "y", "z"}, "7", 1, 0)
		if err != nil || len(l.Items) != 1 || l.Complete {
			t.Fatalf("%d items, %v", len(l.Items), err)
		}
		return l.NextPageToken
	}
	next := func(kind, token string) string {
		l, err := nextPage[string](s, kind, token, 5)
		if f, failed := errors.AsType[*failure.Error](err); failed {
			return f.Problem().Code
		}
		if err != nil || !l.Complete || l.Revision != "7" {
			t.Fatalf("%+v, %v", l, err)
		}
		return strings.Join(l.Items, " ")
	}
	expect := func(what, want, got string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	const gone = cloudv1.CodePageTokenExpired
	a, b := first("a", 4000), first("b", 4000)
	expect("the first", "y z", next("a", a))
	expect("token of another collection", gone, next("b", a))
	c := first("c", 4000)
	expect("the oldest, when there is no room", gone, next("a", a))
	expect("another one", "y z", next("b", b))
	huge := first("d", 40_000)
	expect("before one that is too large", gone, next("b", b))
	expect("before one that is too large", gone, next("c", c))
	expect("one that is too large", "y z", next("d", huge))
	e := first("e", 10)
	expect("one that was too large", gone, next("d", huge))
	// A caller that lists again and again ends its own lists.
	owner.Name = "greedy"
	g := first("g", 4000)
	for range 10 {
		first("h", 4000)
	}
	expect("the oldest of the one with most", gone, next("g", g))
	expect("that of another caller", "y z", next("e", e))
	owner.Name = ""
	clock.SetTime(clock.Now().Add(snapshotLife))
	expect("an old one", gone, next("e", e))
	first("f", 10)
	if len(s.lists) != 1 || len(s.owned) != 1 || s.bytes != len(`"xxxxxxxxxx""y""z"`) {
		t.Errorf("%d lists of %d bytes are left", len(s.lists), s.bytes)
	}
}
