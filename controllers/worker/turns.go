package worker

import "k8s.io/client-go/util/workqueue"

// turns is a queue in which flows take turns.
type turns[T comparable] struct {
	flow func(T) string
	// waiting has the items of each flow in their order, and next the flows that have any, in the order of their turns.
	waiting map[string][]T
	next    []string
	count   int
}

var _ workqueue.Queue[string] = (*turns[string])(nil)

// Touch implements workqueue.Queue: an item that is added again keeps its place.
func (*turns[T]) Touch(T) {}

// Push implements workqueue.Queue.
func (t *turns[T]) Push(item T) {
	flow := t.flow(item)
	if len(t.waiting[flow]) == 0 {
		t.next = append(t.next, flow)
	}
	t.waiting[flow] = append(t.waiting[flow], item)
	t.count++
}

// Len implements workqueue.Queue.
func (t *turns[T]) Len() int { return t.count }

// Pop implements workqueue.Queue.
func (t *turns[T]) Pop() T {
	flow := t.next[0]
	item, rest := t.waiting[flow][0], t.waiting[flow][1:]
	t.next, t.count = t.next[1:], t.count-1
	if len(rest) == 0 {
		delete(t.waiting, flow)
	} else {
		t.waiting[flow], t.next = rest, append(t.next, flow)
	}
	return item
}
