package pace

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	// defaultShare is the share of the advertised quota that is used by default: other clients use the same quota.
	defaultShare = 0.5
	// burstShare is the share of the budget of a window that may be used at once. The rest accrues during the window, so
	// that no window, whenever it begins, exceeds the budget.
	burstShare = 0.2
	// maxBudgets bounds how many policies are heeded: the cloud names them.
	maxBudgets = 8
)

// The names of policies that concern only reads or only writes. All others concern both.
const (
	policyRead  = "read"
	policyWrite = "write"
)

// budget is our share of one advertised quota, as a token bucket.
type budget struct {
	policy  Policy
	limiter *rate.Limiter
	// heard is when the quota was last advertised.
	heard time.Time
	flows map[string]*flow
}

// learn applies an advertised limit.
func (g *Gate) learn(l Limit, now time.Time) {
	b := g.budgets[l.Name]
	if p := l.Policy; p != nil {
		if b == nil && len(g.budgets) >= maxBudgets {
			return
		}
		if b == nil {
			limit, burst := p.limit(g.share)
			b = &budget{policy: *p, limiter: rate.NewLimiter(limit, burst), flows: map[string]*flow{}}
			g.budgets[l.Name] = b
		}
		if b.policy != *p {
			// A changed quota is no reason for another burst: the tokens stay as they are.
			limit, burst := p.limit(g.share)
			b.policy = *p
			b.limiter.SetLimitAt(now, limit)
			b.limiter.SetBurstAt(now, burst)
		}
		b.heard = now
	}
	if l.Remaining == nil {
		return
	}
	if *l.Remaining == 0 && l.Reset > 0 {
		until := now.Add(g.jittered(min(l.Reset, MaxSilence)))
		for _, write := range []bool{false, true} {
			if concerns(l.Name, write) {
				g.silence(write, until, nil)
			}
		}
	}
	if b == nil {
		return
	}
	// Other clients use the same quota: of what is left, only our share is ours.
	if excess := int(b.limiter.TokensAt(now) - g.share*float64(*l.Remaining)); excess > 0 {
		b.limiter.AllowN(now, excess)
	}
}

// forget ends the budgets whose quotas are no longer advertised: a proxy may have advertised one by mistake, or the cloud
// has renamed one. Useful responses to requests that a quota concerns are expected to mention it within MaxSilence.
func (g *Gate) forget(r Request, now time.Time) {
	for name, b := range g.budgets {
		if b.applies(r) && now.Sub(b.heard) >= MaxSilence {
			delete(g.budgets, name)
		}
	}
}

// limit returns the parameters of the token bucket for a share of the quota. However small the quota, a request may be
// sent every MaxSilence: a quota that is advertised by mistake can only be corrected by a response.
func (p Policy) limit(share float64) (rate.Limit, int) {
	allowed := max(1, share*float64(p.Quota))
	burst := max(1, int(burstShare*allowed))
	perWindow := max(allowed-float64(burst), allowed/2)
	return rate.Limit(max(perWindow/p.Window.Seconds(), 1/MaxSilence.Seconds())), burst
}

func (b *budget) applies(r Request) bool { return concerns(b.policy.Name, r.Write) }

func concerns(policy string, write bool) bool {
	return policy != policyRead && policy != policyWrite || write == (policy == policyWrite)
}

// left returns the number of requests that may be sent at once, without what is reserved for more important classes and
// for other flows.
func (b *budget) left(r Request, now time.Time) float64 {
	burst := float64(b.limiter.Burst())
	reserve := r.Class.reserve() * burst
	if f := b.flow(r, now); f != nil && !r.Continues {
		reserve += min(f.used, (burst-reserve)/2)
	}
	return b.limiter.TokensAt(now) - min(reserve, burst-1)
}

// wait returns how long a request must wait; 0 if it may pass.
func (b *budget) wait(r Request, now time.Time) time.Duration {
	if !b.applies(r) {
		return 0
	}
	missing := 1 - b.left(r, now)
	if missing <= 0 {
		return 0
	}
	// At least a moment: what is missing may be less than a nanosecond's worth.
	return max(time.Millisecond, time.Duration(missing/float64(b.limiter.Limit())*float64(time.Second)))
}

func (b *budget) take(r Request, now time.Time) {
	if !b.applies(r) {
		return
	}
	b.limiter.AllowN(now, 1)
	if f := b.flow(r, now); f != nil {
		f.used = min(f.used+1, b.mostUsed())
	}
}
