package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/state"
)

const (
	// announceInterval is how often announcements are checked, in case what makes them has stopped.
	announceInterval = 10 * time.Second
	// announcePatience is how long a change waits for its announcement before it goes on without it.
	announcePatience = 2 * time.Second
	// downAfter is how long the proxy may be away before its addresses are withdrawn: one that has crashed starts again.
	downAfter = 5 * time.Second
)

// serving is what an edge serves, from which follows what it announces.
type serving struct {
	config  *config.Config
	leaving bool
	// stale is true if the cloud has not answered for too long.
	stale bool
	// failed are the addresses that the machine could not add.
	failed map[netip.Addr]error
	// proxied is what the proxy served when it was last known, and at is when that was; zero if it never was.
	proxied []netip.AddrPort
	at      time.Time
	// forwarded is what the kernel serves, and known is false until it has applied something: until then, what the last
	// agent announced stays.
	forwarded []netip.AddrPort
	known     bool
}

// addresses returns those to announce: those without listeners, and those of which a listener is served. What needs a
// proxy that is down is better served by another edge.
func (s *serving) addresses(now time.Time) []netip.Addr {
	if s.leaving || s.stale {
		return nil
	}
	served := map[netip.AddrPort]bool{}
	for _, at := range slices.Concat(s.proxied, s.forwarded) {
		served[at] = true
	}
	down := now.Sub(s.at) > downAfter
	listens, works, broken := map[netip.Addr]bool{}, map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for i := range s.config.Listeners {
		l := &s.config.Listeners[i]
		listens[l.Address] = true
		if served[netip.AddrPortFrom(l.Address, l.Port)] {
			works[l.Address] = true
		}
		if down && l.Engine == config.Proxy {
			broken[l.Address] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(s.config.Addresses), func(x netip.Addr) bool {
		return s.failed[x] != nil || broken[x] || listens[x] && !works[x]
	})
}

// serve finds out what the edge serves, after a change, and has it announced.
func (a *Agent) serve(ctx context.Context, change func(*serving)) {
	proxied, err := a.Proxy.Serves(ctx)
	now := a.Clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.serving)
	if err == nil {
		a.serving.proxied, a.serving.at = proxied, now
	}
	if stale := a.WithdrawAfter > 0 && now.Sub(a.heard) > a.WithdrawAfter; stale != a.serving.stale {
		a.serving.stale = stale
		a.Logger.WarnContext(ctx, "The cloud has not answered for too long, or answers again", "withdrawn", stale, "answered", a.heard)
	}
	if a.serving.config != nil && a.serving.known {
		a.speaker.say(a.serving.addresses(now))
	}
}

// withdraw stops announcing what is not to be announced. What makes the announcements may hang, so that a change does not
// wait for long. Addresses that are given up stay until the traffic has gone elsewhere.
func (a *Agent) withdraw(ctx context.Context, wanted []netip.Addr) {
	withdrawn := a.speaker.only(wanted)
	if len(withdrawn) == 0 || !a.speaker.settled(ctx) {
		return
	}
	gone := a.Clock.Now().Add(a.Announcer.Settle())
	for _, x := range withdrawn {
		a.settling[x] = gone
	}
}

// lingering returns the addresses that are given up and may still have traffic, and until when the first one may; zero
// for none. Others do not wait for that.
func (a *Agent) lingering(wanted []netip.Addr) (list []netip.Addr, until time.Time) {
	now := a.Clock.Now()
	for x, gone := range a.settling {
		switch {
		case a.config == nil || !slices.Contains(a.config.Addresses, x) || !now.Before(gone):
			delete(a.settling, x)
			continue
		case slices.Contains(wanted, x):
			continue
		case until.IsZero() || gone.Before(until):
			until = gone
		}
		list = append(list, x)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list, until
}

// lingeringFaults returns the faults of the load balancers of addresses that may still have traffic: they are not free.
func lingeringFaults(list []netip.Addr, owners map[netip.Addr]string) []cloudv1.EdgeFault {
	var faults []cloudv1.EdgeFault
	for _, x := range list {
		faults = append(faults, cloudv1.EdgeFault{
			LoadBalancerID: owners[x], Pending: true,
			Detail: fmt.Sprintf("address %s was withdrawn, and stays until its traffic has gone to other edges", x),
		})
	}
	return faults
}

// settle waits until no traffic arrives any more for addresses that have been withdrawn.
func (a *Agent) settle(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-a.Clock.After(a.Announcer.Settle()):
	}
}

// Leave withdraws all addresses and waits until the traffic has gone to other edges. The agent must have ended.
func (a *Agent) Leave(ctx context.Context) error {
	if err := a.Announcer.Announce(ctx, nil); err != nil {
		return fmt.Errorf("withdraw addresses: %w", err)
	}
	a.settle(ctx)
	return ctx.Err()
}

// announce announces what the speaker is to say, until ctx is done.
func (a *Agent) announce(ctx context.Context) {
	ticker := a.Clock.NewTicker(announceInterval)
	defer ticker.Stop()
	note := a.noteErrors(ctx, "Could not announce addresses", "Addresses are announced again")
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.speaker.wake:
		case <-ticker.C():
		case <-retry:
		}
		list, begun := a.speaker.begin()
		if !begun {
			continue
		}
		a.watch.begin(partAnnounce)
		err := a.Announcer.Announce(ctx, list)
		a.watch.end(partAnnounce)
		a.speaker.end(list, err)
		note(err)
		if retry = nil; err != nil {
			retry = a.Clock.After(retryInterval)
		}
		a.setFaults(func(f *faults) { f.announced = a.speaker.faults(a.owners) })
	}
}

// own notes which load balancers addresses belong to, as long as they may be announced, or have traffic.
func (a *Agent) own(s *state.State) {
	owners := map[netip.Addr]string{}
	for _, lb := range s.LoadBalancers {
		for _, vip := range lb.VIPs {
			if address, err := netip.ParseAddr(vip.Address); err == nil {
				owners[address] = lb.ID
			}
		}
	}
	audible := a.speaker.audible()
	a.mu.Lock()
	defer a.mu.Unlock()
	for address, owner := range a.owners {
		if _, settling := a.settling[address]; settling || audible[address] {
			owners[address] = owner
		}
	}
	a.owners = owners
}

// speaker knows what is to be announced, and what may be.
type speaker struct {
	wake  chan struct{}
	clock clock.Clock

	mu     sync.Mutex
	wanted []netip.Addr
	// begun is true once there is something to say, even if it is nothing; busy while there is news, or it is being said.
	begun, busy bool
	// done is closed after each attempt, of which err is the last one's error.
	done chan struct{}
	err  error
	// late is true if a change has not waited for its announcement.
	late bool
	// announced are the addresses that are announced, maybe those that may be.
	announced, maybe map[netip.Addr]bool
}

// say has the addresses announced.
func (s *speaker) say(list []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun || !slices.Equal(list, s.wanted) {
		s.wanted, s.begun, s.busy = list, true, true
		signal(s.wake)
	}
}

// only has no addresses announced but these, and returns those that were.
func (s *speaker) only(wanted []netip.Addr) (withdrawn []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept []netip.Addr
	for _, x := range s.wanted {
		if slices.Contains(wanted, x) {
			kept = append(kept, x)
		} else {
			withdrawn = append(withdrawn, x)
		}
	}
	if len(withdrawn) > 0 {
		s.wanted, s.busy = kept, true
		signal(s.wake)
	}
	return withdrawn
}

// begin returns what to announce, and false as long as nothing is known.
func (s *speaker) begin() ([]netip.Addr, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.wanted {
		s.maybe[x] = true
	}
	return s.wanted, s.begun
}

// end notes how an attempt to announce addresses ended.
func (s *speaker) end(list []netip.Addr, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	if err == nil {
		s.announced, s.maybe, s.late = map[netip.Addr]bool{}, map[netip.Addr]bool{}, false
		for _, x := range list {
			s.announced[x], s.maybe[x] = true, true
		}
	}
	s.busy = !slices.Equal(list, s.wanted)
	close(s.done)
	s.done = make(chan struct{})
}

// settled waits until all is announced that is to be. It returns false if that fails or takes too long.
func (s *speaker) settled(ctx context.Context) bool {
	late := s.clock.After(announcePatience)
	for {
		s.mu.Lock()
		done := s.done
		if s.err == nil && !s.busy {
			s.mu.Unlock()
			return true
		}
		if s.err != nil {
			s.mu.Unlock()
			return false
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return false
		case <-done:
		case <-late:
			s.mu.Lock()
			s.late = true
			s.mu.Unlock()
			return false
		}
	}
}

// said returns the addresses that are announced, in their order.
func (s *speaker) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]string, 0, len(s.announced))
	for x := range s.announced {
		list = append(list, x.String())
	}
	slices.Sort(list)
	return list
}

// audible returns the addresses that may be announced.
func (s *speaker) audible() map[netip.Addr]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := map[netip.Addr]bool{}
	for x := range s.maybe {
		list[x] = true
	}
	return list
}

// faults returns the faults of the load balancers whose addresses are not announced, or may be although they should not.
func (s *speaker) faults(owners map[netip.Addr]string) []cloudv1.EdgeFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	reason := "the attempt has not ended yet"
	switch {
	case s.err != nil:
		reason = s.err.Error()
	case !s.late:
		return nil
	}
	list := []cloudv1.EdgeFault{{Detail: "announce addresses: " + reason}}
	add := func(x netip.Addr, what string) {
		if owner := owners[x]; owner != "" {
			list = append(list, cloudv1.EdgeFault{LoadBalancerID: owner, Detail: fmt.Sprintf("address %s %s: %s", x, what, reason)})
		}
	}
	wanted := map[netip.Addr]bool{}
	for _, x := range s.wanted {
		if wanted[x] = true; !s.announced[x] {
			add(x, "is not announced")
		}
	}
	for x := range s.maybe {
		if !wanted[x] {
			add(x, "may still be announced")
		}
	}
	slices.SortFunc(list, compareFaults)
	return list
}
