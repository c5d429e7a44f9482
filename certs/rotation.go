package certs

import (
	"crypto/x509"
	"slices"
	"time"
)

// authorityFactor is how many times longer an authority lasts than the certificates that it signs. A new authority must reach
// every API server before it can be used; a new certificate of the same authority is good at once, so it is what changes often.
const authorityFactor = 10

// rotation decides what becomes of the state.
type rotation struct {
	hosts    []string
	validity time.Duration
}

// next is the state that should follow, and the same one if nothing is due. It takes two turns to change the authority: the new
// one comes into the state, and signs only when API servers know it. So whoever reads the state can use what he finds.
func (r rotation) next(s *state, now time.Time, known func(*x509.Certificate) bool) (*state, error) {
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
		if !known(s.authority.cert) {
			return s, nil
		}
		return r.sign(s, now, r.hosts)
	case !now.Before(due(signer)):
		next, err := newAuthority(now, authorityFactor*r.validity)
		if err != nil {
			return nil, err
		}
		return &state{authority: next, former: s.authorities(), serving: s.serving}, nil
	case !now.Before(due(s.serving.Leaf)):
		return r.sign(s, now, r.hosts)
	}
	if missing := r.missing(s.serving.Leaf); len(missing) > 0 {
		// The hosts that are there may be those of replicas that are about to end, and still serve.
		return r.sign(s, now, append(hostsOf(s.serving.Leaf), missing...))
	}
	return s, nil
}

// sign is the state with a new serving certificate.
func (r rotation) sign(s *state, now time.Time, hosts []string) (*state, error) {
	serving, err := s.authority.issue(now, r.validity, hosts)
	if err != nil {
		return nil, err
	}
	return &state{authority: s.authority, former: s.former, serving: serving}, nil
}

// missing are the hosts that a certificate is not for.
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
