package lookup_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/lookup"
)

// slow is a cloud whose responses take some time, by default a second. It is not a server, so that it works with
// synctest's clock.
type slow struct {
	lookup.Cloud
	calls atomic.Int32
	panic bool
	takes time.Duration
}

func (s *slow) Volume(ctx context.Context, id string) (*cloudv1.Volume, error) {
	s.calls.Add(1)
	if s.panic {
		panic("on purpose")
	}
	select {
	case <-time.After(cmp.Or(s.takes, time.Second)):
		return &cloudv1.Volume{Object: cloudv1.Object{ID: id}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Concurrent reads of what is never cached are still merged.
func TestFreshLookupsAreOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &slow{}
		l := lookup.New(lookup.Options{Cloud: c})
		for round := int32(1); round <= 2; round++ {
			errs := together(100, func(int) error {
				_, err := l.FreshVolume(t.Context(), "vol-1")
				return err
			})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			if got := c.calls.Load(); got != round {
				t.Errorf("%d calls, want %d", got, round)
			}
		}
	})
}

// A caller whose context ends stops waiting, even the first one; the others get the answer.
func TestCallerWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &slow{}
		l := lookup.New(lookup.Options{Cloud: c})
		errs := together(3, func(i int) error {
			ctx := t.Context()
			if i == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 500*time.Millisecond)
				defer cancel()
			} else {
				time.Sleep(100 * time.Millisecond)
			}
			_, err := l.Volume(ctx, "vol-1")
			return err
		})
		if !errors.Is(errs[0], context.DeadlineExceeded) || errs[1] != nil || errs[2] != nil {
			t.Errorf("errors %v, want one of the first alone", errs)
		}
		if c.calls.Load() != 1 {
			t.Errorf("%d calls, want 1", c.calls.Load())
		}
	})
}

// A read that does not get its turn in time fails; later reads succeed.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &slow{takes: 1500 * time.Millisecond}
		l := lookup.New(lookup.Options{Cloud: c})
		errs := together(33, func(i int) error {
			time.Sleep(time.Duration(i) * time.Millisecond)
			_, err := l.Volume(t.Context(), fmt.Sprintf("vol-%d", i))
			return err
		})
		// The second 16 reads get their turn after a second and a half and have half a second left; the last one gets none.
		for i, err := range errs {
			if i < 16 && err != nil || i >= 16 && i < 32 && !errors.Is(err, context.DeadlineExceeded) || i == 32 && err == nil {
				t.Errorf("read %d: error %v", i, err)
			}
		}
		time.Sleep(2 * time.Second)
		if _, err := l.Volume(t.Context(), "vol-32"); err != nil {
			t.Errorf("after the rush: %v", err)
		}
	})
}

// A flight has its own goroutine, so no caller could recover a panic.
func TestPanic(t *testing.T) {
	l := lookup.New(lookup.Options{Cloud: &slow{panic: true}})
	if _, err := l.Volume(t.Context(), "vol-1"); err == nil || !strings.Contains(err.Error(), "on purpose") {
		t.Errorf("error %v", err)
	}
}
