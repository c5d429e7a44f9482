package mirror

// Watch reports whether objects of a kind have changed that the mirror does not have. It saves the periodic reads of
// those who act only on what they have read from the cloud itself.
type Watch struct {
	mirror *Mirror
	kind   string
	// seen is guarded by the lock of the mirror.
	seen Mark
}

// Mark stands for what the cloud had reported at a time.
type Mark uint64

// Mark returns the mark for Quiet. It must be called before the objects are read from the cloud.
func (w *Watch) Mark() Mark {
	w.mirror.mu.Lock()
	defer w.mirror.mu.Unlock()
	return w.seen
}

// Quiet reports whether objects that were read after the mark are unchanged: the cloud reports changes, has reported
// none, and answers. Whenever the mirror reads its own lists again, in case the cloud has not reported a change, Quiet
// returns false for earlier marks.
func (w *Watch) Quiet(since Mark) bool {
	w.mirror.mu.Lock()
	defer w.mirror.mu.Unlock()
	return w.mirror.follows && w.mirror.current() && w.seen == since
}

// resetWatches makes all earlier marks invalid, because changes have not been reported.
func (m *Mirror) resetWatches(follows bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.follows = follows
	for _, w := range m.watches {
		w.seen++
	}
}

// noteChange remembers a change of a kind.
func (m *Mirror) noteChange(kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.watches {
		if w.kind == kind {
			w.seen++
		}
	}
}
