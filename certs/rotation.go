package certs

import (
	"crypto/x509"
	"slices"
	"time"
)

// authorityFactor is the ratio of the lifetimes of an authority and the certificates that it signs. A new authority
// must reach every API server before it can be used, whereas a new certificate of the same authority is usable
// immediately and can be replaced more often.
const authorityFactor = 10

// rotation determines the next state.
type rotation struct {
	hosts    []string
	validity time.Duration
}

// next returns the state that should follow, or the same state if nothing is due. Replacing the authority takes two
// steps: the new one is added to the state, and signs only after it has propagated to API servers. So every state is
// usable by all replicas that read it.
func (r rotation) next(s *state, now time.Time, propagated func(*x509.Certificate) bool) (*state, error) {
	if s == nil {
		first, err := newAuthority(now, authorityFactor*r.validity)
		if err != nil {
			return nil, err
		}
		return r.sign(&state{authority: first}, now, r.hosts)
	}
	former := slices.DeleteFunc(slices.Clone(s.former), func(c *x509.Certificate) bool { return now.After(c.NotAfter) })
	if len(former) < len(s.former) {
		s = &state{authority: s.authority, former: former, serving: s.serving}
	}
	signer := s.signer()
	switch {
	case signer == nil:
		return r.sign(s, now, r.hosts)
	case !signer.Equal(s.authority.cert):
		if !propagated(s.authority.cert) {
			return s, nil
		}
		return r.sign(s, now, r.hosts)
	case !now.Before(renewalTime(signer)):
		next, err := newAuthority(now, authorityFactor*r.validity)
		if err != nil {
			return nil, err
		}
		return &state{authority: next, former: s.authorities(), serving: s.serving}, nil
	case !now.Before(renewalTime(s.serving.Leaf)):
		return r.sign(s, now, r.hosts)
	}
	if missing := r.missing(s.serving.Leaf); len(missing) > 0 {
		// The existing hosts may be those of replicas that are about to end but still serve.
		return r.sign(s, now, append(hostsOf(s.serving.Leaf), missing...))
	}
	return s, nil
}

// sign returns the state with a new serving certificate.
func (r rotation) sign(s *state, now time.Time, hosts []string) (*state, error) {
	serving, err := s.authority.issue(now, r.validity, hosts)
	if err != nil {
		return nil, err
	}
	return &state{authority: s.authority, former: s.former, serving: serving}, nil
}

// missing returns the hosts that a certificate is not valid for.
func (r rotation) missing(leaf *x509.Certificate) []string {
	return slices.DeleteFunc(slices.Clone(r.hosts), func(host string) bool { return leaf.VerifyHostname(host) == nil })
}

func hostsOf(leaf *x509.Certificate) []string {
	hosts := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}
