package plan

import (
	"fmt"

	"quaymaster.dev/internal/mycloud/edge/config"
)

// Each member takes time when HAProxy loads its configuration and says how members are, while all others wait. With
// 84,000 servers, it did not answer for 20 seconds on a busy machine.
const (
	// ownServers is how many servers each load balancer has for itself.
	ownServers = 256
	// commonServers is how many servers of listeners there are in common, commonProbed how many that are only probed, which
	// no client waits for. One load balancer gets half of them.
	commonServers = 1 << 12
	commonProbed  = 1 << 13
)

// shares divides something among load balancers: each has some for itself, whatever others do, and more as long as it has
// not got most of what there is in common, and common is left.
type shares struct {
	own, most, common int
	// used is what each load balancer has.
	used map[string]int
}

func serverShares(common int) *shares {
	return &shares{own: ownServers, most: common / 2, common: common, used: map[string]int{}}
}

// checkShares divides the health checks that HAProxy can make with a number of open files: a quarter of them equally.
func checkShares(files int, units []Unit) *shares {
	loadBalancers := map[string]bool{}
	for _, u := range units {
		loadBalancers[u.LoadBalancer()] = true
	}
	all := max((files-spareFiles)/filesPerCheck, 0)
	common := all - all/4
	return &shares{
		own: all / 4 / max(len(loadBalancers), 1), most: common - common/4, common: common, used: map[string]int{},
	}
}

// left returns how many a load balancer may still have.
func (s *shares) left(loadBalancer string) int {
	used := s.used[loadBalancer]
	return max(s.own-used, 0) + max(min(s.common, s.most-max(used-s.own, 0)), 0)
}

// take gives some to a load balancer, or takes it back if n is negative.
func (s *shares) take(loadBalancer string, n int) {
	used := s.used[loadBalancer]
	s.used[loadBalancer] = used + n
	s.common -= max(used+n-s.own, 0) - max(used-s.own, 0)
}

// mostChecks is how many checks a load balancer has each second. Checks of 8,000 members each second take a processor.
const mostChecks = 1000

// pace lengthens the intervals of the checks of load balancers that have too many each second, by powers of two, because a
// different interval takes a reload.
func pace(pools []config.Pool) {
	rates := map[string]float64{}
	for i := range pools {
		if m := pools[i].Monitor; m != nil {
			rates[pools[i].ID.LoadBalancer] += float64(len(pools[i].Members)) / intervalOf(m).Seconds()
		}
	}
	for i := range pools {
		if pools[i].Monitor == nil {
			continue
		}
		m := *pools[i].Monitor
		for rate := rates[pools[i].ID.LoadBalancer]; rate > mostChecks; rate /= 2 {
			m.Interval = 2 * intervalOf(&m)
		}
		pools[i].Monitor = &m
	}
}

// serversOf returns the shares of servers that those of a unit belong to.
func (p *planner) serversOf(u Unit) *shares {
	if u.Listener == nil {
		return p.probed
	}
	return p.servers
}

// fits returns an error if a unit needs more than its load balancer may still have. A backend always has what it has.
func (p *planner) fits(u Unit, servers, checks int) error {
	if has := p.running.Backends[u.Backend()]; has.Members >= len(u.Pool.Members) && (has.Checked || checks == 0) {
		return nil
	}
	if left := p.serversOf(u).left(u.LoadBalancer()); servers > left {
		return fmt.Errorf("has %d members, of which %d are left for the load balancer on the edge", servers, left)
	}
	if left := p.checks.left(u.LoadBalancer()); checks > left {
		return fmt.Errorf("needs %d health checks, of which %d are left for the load balancer on the edge; the limit of open "+
			"files of the agent determines how many there are", checks, left)
	}
	return nil
}
