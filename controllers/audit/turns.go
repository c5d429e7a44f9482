package audit

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"

	"quaymaster.dev/internal/policy"
)

// turns is a queue in which namespaces take turns, so that one with many objects does not delay the others. An object is
// in it at most once.
type turns struct {
	// ready receives an item when the queue may have objects.
	ready chan struct{}

	mu sync.Mutex
	// waiting are the objects by namespace, in the order of their arrival.
	waiting map[string][]policy.Key
	queued  sets.Set[policy.Key]
	// order are the namespaces that have objects; the first one is the next.
	order []string
}

func newTurns() *turns {
	return &turns{ready: make(chan struct{}, 1), waiting: map[string][]policy.Key{}, queued: sets.New[policy.Key]()}
}

func (t *turns) add(keys ...policy.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		if t.queued.Has(key) {
			continue
		}
		t.queued.Insert(key)
		if len(t.waiting[key.Namespace]) == 0 {
			t.order = append(t.order, key.Namespace)
		}
		t.waiting[key.Namespace] = append(t.waiting[key.Namespace], key)
	}
	t.signal()
}

// take removes and returns the next objects, at most so many, each of another namespace.
func (t *turns) take(most int) []policy.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	var taken []policy.Key
	for range min(most, len(t.order)) {
		namespace := t.order[0]
		t.order = t.order[1:]
		keys := t.waiting[namespace]
		taken = append(taken, keys[0])
		t.queued.Delete(keys[0])
		if t.waiting[namespace] = keys[1:]; len(keys) > 1 {
			t.order = append(t.order, namespace)
		} else {
			delete(t.waiting, namespace)
		}
	}
	if len(t.order) > 0 {
		t.signal()
	}
	return taken
}

// empty reports whether no object waits.
func (t *turns) empty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.order) == 0
}

func (t *turns) signal() {
	select {
	case t.ready <- struct{}{}:
	default:
	}
}
