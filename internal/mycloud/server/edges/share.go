package edges

import (
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Beat is what changes with every heartbeat.
type Beat struct {
	At      time.Time           `json:"at"`
	Applied uint64              `json:"applied"`
	Faults  []cloudv1.EdgeFault `json:"faults,omitempty"`
}

// Details is what an edge reports when it changes. A list is nil if the edge has not reported any.
type Details struct {
	Health   []cloudv1.MemberHealth    `json:"health"`
	Counters []cloudv1.ListenerCounter `json:"counters"`
	// Counted is how often the edge has reported counters, so that the same report is not taken for another one.
	Counted int `json:"counted"`
	// Announced are the addresses that the edge announces.
	Announced []string `json:"announced"`
}

// Beat returns the last heartbeat of an edge.
func (e *Edge) Beat() Beat { return Beat{At: e.HeartbeatAt, Applied: e.Applied, Faults: e.Faults} }

// Details returns all that an edge has reported.
func (e *Edge) Details() Details {
	d := Details{Announced: e.announced, Counted: e.counted}
	if e.health != nil {
		d.Health = make([]cloudv1.MemberHealth, 0, len(e.health))
	}
	for _, h := range e.health {
		d.Health = append(d.Health, h)
	}
	if e.counters != nil {
		d.Counters = []cloudv1.ListenerCounter{}
	}
	for _, c := range e.counters {
		d.Counters = append(d.Counters, c...)
	}
	return d
}

// Hear stores a heartbeat that another server has received.
func (r *Registry) Hear(id string, b Beat) {
	r.change(id, func(e *Edge) {
		e.HeartbeatAt, e.heard, e.Applied = b.At, r.clock.Now(), b.Applied
		e.setFaults(b.Faults)
	})
}

// Learn stores the details that another server has received.
func (r *Registry) Learn(id string, d Details) {
	r.change(id, func(e *Edge) {
		if d.Health != nil {
			e.health = map[memberID]cloudv1.MemberHealth{}
			for _, h := range d.Health {
				e.health[memberID{h.LoadBalancerID, h.PoolKey, h.Family, h.MemberKey}] = h
			}
		}
		if d.Counters != nil && d.Counted != e.counted {
			e.setCounters(d.Counters, d.Counted)
		}
		if d.Announced != nil {
			e.announced = d.Announced
		}
	})
}

// change changes a registered edge.
func (r *Registry) change(id string, edit func(*Edge)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.edges[id]
	if old == nil {
		return
	}
	e := *old
	edit(&e)
	r.edges[id] = &e
	r.wake()
}

// Replace replaces the durable part of all edges by what is stored.
func (r *Registry) Replace(stored []*cloudv1.Edge) {
	exist := map[string]bool{}
	for _, e := range stored {
		exist[e.ID] = true
		if known := r.Get(e.ID); known == nil || known.revision != Number(e.Revision) {
			r.Put(e, false)
		}
	}
	for _, e := range r.Select(func(e *Edge) bool { return !exist[e.ID] }) {
		r.Drop(e.ID)
	}
}
