package webhook

import "sync"

// shares divides a quantity among holders. A holder gets more only while it holds less than what is left for others: the
// first one can take half of everything, the next one half of the rest, and so on. As everything is soon returned, those
// who want more than their share end up with equal ones.
type shares struct {
	mu   sync.Mutex
	left int64
	held map[holder]int64
}

// holder is a caller or, with a part, some of what it does: the requests to one path or about one namespace.
type holder struct{ caller, part string }

func newShares(total int64) *shares { return &shares{left: total, held: map[holder]int64{}} }

// take reports whether the caller gets n more.
func (s *shares) take(caller string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := holder{caller: caller}
	if s.held[h]+n > s.left {
		return false
	}
	s.held[h] += n
	s.left -= n
	return true
}

func (s *shares) giveBack(caller string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += n
	s.reduce(holder{caller: caller}, n)
}

// enter reports whether one of the caller's requests may be part of something. A part may have half of what is left for
// the others, so that the other parts of the same caller find something, too.
func (s *shares) enter(caller, part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := holder{caller, part}
	if s.held[h] > 0 && 2*(s.held[h]+1) > s.left {
		return false
	}
	s.held[h]++
	return true
}

func (s *shares) leave(caller, part string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reduce(holder{caller, part}, 1)
}

func (s *shares) reduce(h holder, n int64) {
	if s.held[h] -= n; s.held[h] == 0 {
		delete(s.held, h)
	}
}
