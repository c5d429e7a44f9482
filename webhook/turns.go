package webhook

import (
	"container/list"
	"context"
	"sync"
)

// turns lets a number of requests be handled at a time, and the others wait. The next turn is for the caller that has the
// fewest; so a caller with many requests waits for itself, and not the others for it. Requests of the same caller get
// their turns in order of arrival.
type turns struct {
	mu sync.Mutex
	// left is more than zero only if no one waits.
	left int
	// lines has those callers that have turns or wait for some.
	lines map[string]line
	// events counts the arrivals of callers and the ends of turns.
	events uint64
}

// line is the state of one caller.
type line struct {
	held int
	// since is the event since which the caller has been waiting: its arrival or, later, the end of its last turn.
	since uint64
	// waiting are the channels to close, one a request; nil if none has waited.
	waiting *list.List
}

func newTurns(total int) *turns { return &turns{left: total, lines: map[string]line{}} }

// take waits until it is the turn of a request of the caller. It reports false if the context ends before. Only if there
// is no turn now, it asks the context.
func (t *turns) take(ctx context.Context, caller string) bool {
	t.mu.Lock()
	if t.left > 0 {
		t.left--
		t.give(caller, t.line(caller))
		t.mu.Unlock()
		return true
	}
	l := t.line(caller)
	if l.waiting == nil {
		l.waiting = list.New()
	}
	mine := make(chan struct{})
	place := l.waiting.PushBack(mine)
	t.lines[caller] = l
	t.mu.Unlock()
	select {
	case <-mine:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-mine:
		// It came too late.
		t.pass(caller)
	default:
		l := t.lines[caller]
		l.waiting.Remove(place)
		t.set(caller, l)
	}
	return false
}

// giveBack ends one turn of the caller.
func (t *turns) giveBack(caller string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass(caller)
}

// pass takes a turn from the caller and gives it to the next one, if any. Its callers hold the lock, as do those of the
// methods below.
func (t *turns) pass(caller string) {
	l := t.lines[caller]
	l.held--
	t.events++
	l.since = t.events
	t.set(caller, l)
	next, l, ok := t.next()
	if !ok {
		t.left++
		return
	}
	mine, _ := l.waiting.Remove(l.waiting.Front()).(chan struct{})
	t.give(next, l)
	close(mine)
}

// next returns the caller that gets the next turn: of those that have the fewest, the one that has been waiting for
// longest.
func (t *turns) next() (caller string, next line, ok bool) {
	for c, l := range t.lines {
		if l.waits() && (!ok || l.held < next.held || l.held == next.held && l.since < next.since) {
			caller, next, ok = c, l, true
		}
	}
	return caller, next, ok
}

// line returns the state of the caller.
func (t *turns) line(caller string) line {
	if l, ok := t.lines[caller]; ok {
		return l
	}
	t.events++
	return line{since: t.events}
}

func (t *turns) give(caller string, l line) {
	l.held++
	t.lines[caller] = l
}

// set forgets a caller that neither has turns nor waits.
func (t *turns) set(caller string, l line) {
	if l.held == 0 && !l.waits() {
		delete(t.lines, caller)
		return
	}
	t.lines[caller] = l
}

func (l line) waits() bool { return l.waiting != nil && l.waiting.Len() > 0 }
