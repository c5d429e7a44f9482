//go:build linux

package kernel

import (
	"fmt"
	"maps"
	"time"
)

// A mark is markPrefix with a number from 1 to maxMarks. Flows in the kernel carry marks, so a number keeps its target
// across restarts.
const (
	markPrefix = 0x4d430000
	markMask   = 0xffff0000
	maxMarks   = 0xffff
	// maxShare is how many of them the members of one load balancer may have, so that some are left for others.
	maxShare = maxMarks / 8
)

// memory is what the engine must know after a restart.
type memory struct {
	// Marks has the number of each target.
	Marks map[string]uint32 `json:"marks"`
	// Kept has the targets whose connections go on, by listener: a member's until the time, or, if that is zero, as long
	// as it is a member.
	Kept map[string]map[string]time.Time `json:"kept"`
	// Settings are the kernel's settings as they were before the engine changed them.
	Settings map[string]string `json:"settings"`
}

func newMemory() *memory {
	return &memory{
		Marks: map[string]uint32{}, Kept: map[string]map[string]time.Time{}, Settings: map[string]string{},
	}
}

// marker assigns marks.
type marker struct {
	memory *memory
	// used are the numbers that targets have, nil before the first search; last is the last one that was assigned.
	used map[uint32]bool
	last uint32
	// shares has the targets of each load balancer.
	shares map[string]map[string]bool
}

// mark returns the mark of a target of a load balancer. It assigns one that no target has, unless there is none, or the
// load balancer has its share.
func (m *marker) mark(loadBalancer string, t target) (uint32, error) {
	name := t.String()
	share := m.shares[loadBalancer]
	if len(share) == maxShare && !share[name] {
		return 0, fmt.Errorf("the load balancer has %d members on the edge, which is the maximum", maxShare)
	}
	number, ok := m.memory.Marks[name]
	if !ok {
		if number = m.free(); number == 0 {
			return 0, fmt.Errorf("the edge has %d members, which is the maximum", maxMarks)
		}
		m.memory.Marks[name] = number
	}
	if share == nil {
		if m.shares == nil {
			m.shares = map[string]map[string]bool{}
		}
		share = map[string]bool{}
		m.shares[loadBalancer] = share
	}
	share[name] = true
	return markPrefix | number, nil
}

// free returns a number that no target has, or 0.
func (m *marker) free() uint32 {
	if m.used == nil {
		m.used = make(map[uint32]bool, len(m.memory.Marks))
		for _, number := range m.memory.Marks {
			m.used[number] = true
		}
	}
	for m.last < maxMarks {
		if m.last++; !m.used[m.last] {
			return m.last
		}
	}
	return 0
}

// forget releases the numbers of targets that no listener uses, once most numbers are in use. All listeners must have
// been planned.
func (m *memory) forget() {
	if len(m.Marks) <= maxMarks/2 {
		return
	}
	used := map[string]bool{}
	for _, targets := range m.Kept {
		for name := range targets {
			used[name] = true
		}
	}
	maps.DeleteFunc(m.Marks, func(name string, _ uint32) bool { return !used[name] })
}

func (m *memory) clone() *memory {
	return &memory{Marks: maps.Clone(m.Marks), Kept: maps.Clone(m.Kept), Settings: maps.Clone(m.Settings)}
}
