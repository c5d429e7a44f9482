package dlb_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"quaymaster.dev/controllers/brake"
	"quaymaster.dev/internal/brakes"
	"quaymaster.dev/test/env"
)

// The brake is recorded while many load balancers are missing, and released when they are few again.
func TestBrakeIsRecorded(t *testing.T) {
	f := start(t, 0)
	book := brake.New(brake.Options{Client: f.client, Namespace: "kube-system", Recorder: f.events})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { book.Run(ctx) })
	defer running.Wait()
	defer stop()
	engaged := func() bool { _, _, is := book.Engaged(brakes.MissingLoadBalancers); return is }
	env.Eventually(t, 10*time.Second, "the record of brakes", func(context.Context) error {
		if engaged() {
			return errors.New("it is not read")
		}
		return nil
	})
	f.options.Brake = book
	f.restart()
	first, second := named("a"), named("b")
	f.lose(f.publish(first))
	f.lose(f.publish(second))
	for range 3 {
		if _, err := f.ensure(first); err == nil {
			t.Fatal("created again")
		}
		f.pass(30)
	}
	if !engaged() {
		t.Fatal("the brake is not engaged")
	}
	for i := range 8 {
		f.publish(named(string(rune('p' + i))))
	}
	f.pass(30)
	if _, err := f.ensure(first); err != nil || engaged() {
		t.Errorf("error %v, engaged %t; want neither", err, engaged())
	}
}
