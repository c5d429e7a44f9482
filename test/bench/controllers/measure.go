package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"quaymaster.dev/test/bench/admission/machine"
	"quaymaster.dev/test/harness/env"
)

const (
	// silence is how long there must be no call for work to count as finished; calls for changes do not count.
	silence = 8 * time.Second
	// watched is how long calls are counted at least: longer than what follows from a change.
	watched = 32 * time.Second
	// startBound and changeBound are how long they are counted at most.
	startBound, changeBound = 3 * time.Minute, 90 * time.Second
	// small is how long calls are counted after changes that should cause none.
	small = 4 * time.Second
	// idle is how long the controllers are measured without any change.
	idle = 30 * time.Second
	// joining Nodes arrive within joinTime, from joinFrom Nodes on.
	joining, joinTime, joinFrom = 500, 10 * time.Second, 1000
)

// size is how large a cluster is.
type size struct{ services, nodes int }

func (s size) String() string { return fmt.Sprintf("%dx%d", s.services, s.nodes) }

// counted is a tally that may have been cut off.
type counted struct {
	tally

	cut   bool
	after time.Duration
}

// measurement is what one kind of controllers does in a cluster of one size.
type measurement struct {
	size        size
	controllers string

	start, idle, ingress, other, annotation, foreign counted
	// join is nil if it was not measured.
	join *counted
	// cpu is in cores, memory in bytes, after start and idle.
	cpu    float64
	memory machine.Memory
}

// measure runs the controllers in a cluster that is as they want it, and changes it. number differs between the
// measurements of one cluster.
func (w *world) measure(ctx context.Context, m *measurement, number int, progress func(string, ...any)) (err error) {
	beating, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	nodes := w.nodes
	running.Go(func() { w.beats(beating, nodes) })
	defer running.Wait()
	defer end()
	w.counter.reset()
	start := w.start
	if m.controllers == stock {
		start = w.startStock
	}
	controllers, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if stopped := controllers.Stop(stopWait); err == nil {
			err = stopped
		}
	}()
	m.start = w.until(ctx, startBound)
	progress("started: %d calls in %s: %v", m.start.calls(), m.start.after, m.start.routes)
	if err := w.rest(ctx, m, controllers); err != nil {
		return err
	}
	progress("idle: %.4f cores, %d MiB, %v", m.cpu, m.memory.Resident>>20, m.idle.routes)
	if err := w.changes(ctx, m, number); err != nil {
		return err
	}
	progress("changes: %v, %v, %v, %v", m.ingress.routes, m.other.routes, m.annotation.routes, m.foreign.routes)
	if m.size.nodes < joinFrom {
		return nil
	}
	joined, err := w.join(ctx)
	progress("joined: %d calls in %s: %v", joined.calls(), joined.after, joined.routes)
	m.join = &joined
	return err
}

// until counts the calls until they end, for watched at least and for bound at most.
func (w *world) until(ctx context.Context, bound time.Duration) counted {
	began := time.Now()
	for ctx.Err() == nil {
		made, quiet := w.counter.read()
		switch past := time.Since(began); {
		case past >= watched && quiet >= silence:
			return counted{tally: made, after: (past - quiet).Round(time.Second)}
		case past >= bound:
			return counted{tally: made, cut: true, after: bound}
		}
		pause(ctx, 100*time.Millisecond)
	}
	return counted{}
}

// rest measures the controllers while nothing happens but the heartbeats of kubelets.
func (w *world) rest(ctx context.Context, m *measurement, controllers *env.Server) error {
	w.counter.reset()
	before, err := machine.CPU(controllers.PID())
	if err != nil {
		return err
	}
	began := time.Now()
	pause(ctx, idle)
	after, err := machine.CPU(controllers.PID())
	if err != nil {
		return err
	}
	m.cpu = float64(after-before) / float64(time.Since(began))
	m.idle.tally, _ = w.counter.read()
	m.memory, err = machine.MemoryOf(controllers.PID())
	return err
}

// changes makes one change after the other.
func (w *world) changes(ctx context.Context, m *measurement, number int) error {
	for _, c := range []struct {
		result *counted
		wait   time.Duration
		change func() error
	}{
		{&m.ingress, watched, func() error { return w.patchNode(ctx, 10+number, "annotations", ingressNode, "edge") }},
		{&m.other, small, func() error { return w.patchNode(ctx, 9, "labels", "example.com/team", fmt.Sprint("t", number)) }},
		{&m.annotation, small, func() error { return w.annotate(ctx, 2, annotation+"listener-maxqps", fmt.Sprint(100+number)) }},
		{&m.foreign, small, func() error { return w.annotate(ctx, 3, "example.com/team", fmt.Sprint("t", number)) }},
	} {
		w.counter.reset()
		if err := c.change(); err != nil {
			return err
		}
		pause(ctx, c.wait)
		c.result.tally, _ = w.counter.read()
	}
	return nil
}

// join adds Nodes with their machines.
func (w *world) join(ctx context.Context) (counted, error) {
	w.counter.reset()
	began := time.Now()
	first := w.nodes + 1
	w.nodes += joining
	err := each(first, w.nodes, func(i int) error {
		pause(ctx, time.Until(began.Add(time.Duration(i-first)*joinTime/joining)))
		if _, err := w.addMachine(ctx, i); err != nil {
			return err
		}
		return w.addNode(ctx, i)
	})
	return w.until(ctx, changeBound), err
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
