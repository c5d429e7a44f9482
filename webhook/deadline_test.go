package webhook

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The context ends as one of the standard library does, whether or not something waits for it.
func TestDeadlineContext(t *testing.T) {
	type key struct{}
	for _, waits := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			parent, stop := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
			c := withDeadline(parent, time.Now().Add(time.Second))
			defer c.end()
			if waits {
				go func() { <-c.Done() }()
			}
			synctest.Wait()
			if err := c.Err(); err != nil || c.Value(key{}) != "value" {
				t.Errorf("waits %t: ended with %v, value %v", waits, err, c.Value(key{}))
			}
			child, cancel := context.WithTimeout(c, time.Hour)
			defer cancel()
			time.Sleep(time.Second)
			synctest.Wait()
			if !errors.Is(c.Err(), context.DeadlineExceeded) || !errors.Is(child.Err(), context.DeadlineExceeded) {
				t.Errorf("waits %t: %v after the deadline, child %v", waits, c.Err(), child.Err())
			}
			<-c.Done()

			canceled := withDeadline(parent, time.Now().Add(time.Hour))
			defer canceled.end()
			if waits {
				_ = canceled.Done()
			}
			stop()
			if !errors.Is(canceled.Err(), context.Canceled) {
				t.Errorf("waits %t: %v after the parent was canceled", waits, canceled.Err())
			}
		})
	}
}
