package rights_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// eventually waits until a check of the cluster succeeds.
func (w *world) eventually(what string, check func(context.Context) error) {
	w.t.Helper()
	env.Eventually(w.t, soon, what, check)
}

// repeated waits for an Event that was recorded twice: the second time updates the first.
func (w *world) repeated(reason string) {
	w.t.Helper()
	w.happened(reason, 2)
}

// happened waits for an Event that was recorded so many times.
func (w *world) happened(reason string, times int32) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("an Event %s, %d times", reason, times), func(ctx context.Context) error {
		events := &corev1.EventList{}
		if err := w.Client.List(ctx, events); err != nil {
			return err
		}
		var seen []string
		for _, e := range events.Items {
			if e.Reason == reason && e.Count >= times {
				return nil
			}
			seen = append(seen, fmt.Sprintf("%s %d", e.Reason, e.Count))
		}
		return fmt.Errorf("there are %q", seen)
	})
}

// gone waits until an object no longer exists.
func (w *world) gone(object client.Object) {
	w.t.Helper()
	w.eventually("the end of "+object.GetName(), func(ctx context.Context) error {
		err := w.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil {
			return errors.New("it is still there")
		}
		return client.IgnoreNotFound(err)
	})
}
