package agent

import (
	"cmp"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/visible"
)

// The cloud refuses a heartbeat of more than 32 MiB, and counts an edge without heartbeats as offline. These limits keep
// faults and counters below half of that, whatever load balancers there are.
const (
	maxFaults = 2000
	// maxDetail and maxHealthDetail are as much of a text as the cloud keeps.
	maxDetail, maxHealthDetail = 1024, 255
	// maxHealthBytes limits the health in one heartbeat; the next one has the rest.
	maxHealthBytes = 8 << 20
)

// share returns at most n elements of a list: if it has more, as many of each load balancer.
func share[T any](list []T, n int, loadBalancer func(*T) string) []T {
	if len(list) <= n {
		return list
	}
	count := map[string]int{}
	for i := range list {
		count[loadBalancer(&list[i])]++
	}
	most := max(1, n/len(count))
	clear(count)
	kept := make([]T, 0, n)
	for i := range list {
		id := loadBalancer(&list[i])
		if count[id]++; count[id] <= most && len(kept) < n {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// bounded returns a report whose faults and counters fit in a heartbeat, and whose health has no more members than the cloud
// accepts.
func (r report) bounded() report {
	r.faults = slices.Clone(share(r.faults, maxFaults, func(f *cloudv1.EdgeFault) string { return f.LoadBalancerID }))
	for i := range r.faults {
		r.faults[i].Detail = visible.Cut(r.faults[i].Detail, maxDetail)
	}
	r.health = share(r.health, cloudv1.MaxHealth, func(h *cloudv1.MemberHealth) string { return h.LoadBalancerID })
	r.counters = share(r.counters, cloudv1.MaxCounters, func(c *cloudv1.ListenerCounter) string { return c.LoadBalancerID })
	return r
}

// reportedMember identifies a member in reports.
type reportedMember struct{ loadBalancer, pool, family, member string }

func reportedAs(h *cloudv1.MemberHealth) reportedMember {
	return reportedMember{h.LoadBalancerID, h.PoolKey, h.Family, h.MemberKey}
}

// sentHealth is the health of members that the cloud knows.
type sentHealth struct {
	known map[reportedMember]cloudv1.MemberHealth
	// last is the load balancer that was sent last: others come first, so that one whose members change all the time does not
	// keep them waiting.
	last string
}

// changes returns what the cloud does not know yet, as far as it fits in a heartbeat, and whether there is more.
func (s *sentHealth) changes(health []cloudv1.MemberHealth) (changes []cloudv1.MemberHealth, more bool) {
	changes = []cloudv1.MemberHealth{}
	present := make(map[reportedMember]bool, len(health))
	for _, h := range health {
		h.Detail = visible.Cut(h.Detail, maxHealthDetail)
		id := reportedAs(&h)
		present[id] = true
		if was, known := s.known[id]; was != h && (known || h.State != cloudv1.OperatingUnknown) {
			changes = append(changes, h)
		}
	}
	for id, h := range s.known {
		if !present[id] {
			h.State, h.Detail = cloudv1.OperatingUnknown, ""
			changes = append(changes, h)
		}
	}
	slices.SortFunc(changes, func(a, b cloudv1.MemberHealth) int { return cmp.Compare(a.LoadBalancerID, b.LoadBalancerID) })
	first := slices.IndexFunc(changes, func(h cloudv1.MemberHealth) bool { return h.LoadBalancerID > s.last })
	if first > 0 {
		changes = slices.Concat(changes[first:], changes[:first])
	}
	size := 0
	for i := range changes {
		if size += healthBytes(&changes[i]); size > maxHealthBytes {
			return changes[:i], true
		}
	}
	return changes, false
}

// received records changes that the cloud has received. It forgets members that are unknown.
func (s *sentHealth) received(changes []cloudv1.MemberHealth) {
	for _, h := range changes {
		if h.State == cloudv1.OperatingUnknown {
			delete(s.known, reportedAs(&h))
		} else {
			s.known[reportedAs(&h)] = h
		}
		s.last = h.LoadBalancerID
	}
}

// healthBytes returns the most bytes that an element may take in a heartbeat: escaped, a byte takes six.
func healthBytes(h *cloudv1.MemberHealth) int {
	return 200 + 6*(len(h.LoadBalancerID)+len(h.PoolKey)+len(h.MemberKey)+len(h.Detail))
}
