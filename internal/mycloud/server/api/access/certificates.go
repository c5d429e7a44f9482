package access

import (
	"crypto/tls"
	"slices"
	"strings"
	"time"
)

// rolePrefix begins the organization of a client certificate that names a role, so that certificates for other purposes give
// none.
const rolePrefix = "mycloud:"

// byCertificate returns the caller with a client certificate, which the connection has verified. It has no role unless the
// certificate names exactly one.
func byCertificate(state *tls.ConnectionState, now time.Time) Caller {
	if state == nil || len(state.VerifiedChains) == 0 {
		return Caller{}
	}
	// The connection may be older than the end of the certificate.
	cert := state.VerifiedChains[0][0]
	if now.After(cert.NotAfter) || cert.Subject.CommonName == "" {
		return Caller{}
	}
	who := Caller{Kind: ByCertificate, Name: cert.Subject.CommonName, expires: cert.NotAfter.UTC()}
	for _, organization := range cert.Subject.Organization {
		role, ok := strings.CutPrefix(organization, rolePrefix)
		if !ok {
			continue
		}
		if who.Role != "" || !slices.Contains([]Role{Read, Write, Edge, Admin}, Role(role)) {
			return Caller{}
		}
		who.Role = Role(role)
	}
	if who.Role == Edge {
		who.Edge = who.Name
	}
	return who
}
