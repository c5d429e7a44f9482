package connections

import (
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"
)

// accepted returns a connection in a state since some time.
func accepted(b *Bound, state http.ConnState, age time.Duration) *bounded {
	closed, other := net.Pipe()
	_ = other.Close()
	one := &bounded{Conn: closed, by: b, state: state, since: time.Now().Add(-age)}
	b.open[one] = struct{}{}
	return one
}

// Connections without a request lose first, then the one that has waited longest. A fresh one does not lose.
func TestLoser(t *testing.T) {
	const idle, active, unused = http.StateIdle, http.StateActive, http.StateNew
	for name, test := range map[string]struct {
		states []http.ConnState
		ages   []time.Duration
		// trusted are all connections from that one on.
		trusted int
		loser   int
		fresh   bool
	}{
		"unused":            {[]http.ConnState{idle, unused, unused}, []time.Duration{time.Hour, time.Second, 2 * time.Second}, 3, 2, false},
		"oldest":            {[]http.ConnState{idle, active, idle}, []time.Duration{time.Second, time.Minute, 2 * time.Second}, 3, 1, false},
		"older than unused": {[]http.ConnState{unused, idle}, []time.Duration{0, time.Second}, 2, 1, false},
		"all fresh":         {[]http.ConnState{unused, idle}, []time.Duration{unusedGrace / 2, grace / 2}, 2, 0, true},
		"stranger":          {[]http.ConnState{active, unused, active}, []time.Duration{time.Second, time.Second, time.Hour}, 2, 1, false},
		"fresh stranger":    {[]http.ConnState{unused, active}, []time.Duration{unusedGrace / 2, time.Hour}, 1, 0, true},
		"all trusted":       {[]http.ConnState{idle, active}, []time.Duration{time.Second, time.Hour}, 0, 1, false},
	} {
		b := NewBound(nil, len(test.states), func() {})
		var all []*bounded
		for i, state := range test.states {
			all = append(all, accepted(b, state, test.ages[i]))
			// Connections are trusted whether they are encrypted or not.
			if i == test.trusted {
				Trust(b.Context(t.Context(), tls.Server(all[i], nil)))
			} else if i > test.trusted {
				Trust(b.Context(t.Context(), all[i]))
			}
		}
		loser, wait := b.loser()
		if loser != all[test.loser] || wait > 0 != test.fresh {
			t.Errorf("%s: another connection loses, or after %s", name, wait)
		}
	}
}

// A connection that is closed makes room at once.
func TestRoom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	evicted := 0
	b := NewBound(l, 1, func() { evicted++ })
	for range 2 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	first, err := b.Accept()
	if err != nil {
		t.Fatal(err)
	}
	b.Observe(first, http.StateActive)
	time.AfterFunc(time.Millisecond, func() { _ = first.Close() })
	if second, err := b.Accept(); err != nil || b.Len() != 1 || evicted != 0 {
		t.Errorf("%v, %v, %d connections, %d evicted", second, err, b.Len(), evicted)
	}
}
