package access

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"
)

func TestByCertificate(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, tc := range map[string]struct {
		commonName    string
		organizations []string
		expired       bool
		want          Caller
	}{
		"read":                {"ann", []string{"mycloud:read"}, false, Caller{Role: Read, Kind: ByCertificate, Name: "ann"}},
		"other organizations": {"ann", []string{"dev", "mycloud:write"}, false, Caller{Role: Write, Kind: ByCertificate, Name: "ann"}},
		"edge":                {"edge-1", []string{"mycloud:edge"}, false, Caller{Role: Edge, Edge: "edge-1", Kind: ByCertificate, Name: "edge-1"}},
		"no role":             {commonName: "ann", organizations: []string{"admin", "system:masters"}, want: Caller{Kind: ByCertificate, Name: "ann"}},
		"two roles":           {commonName: "ann", organizations: []string{"mycloud:read", "mycloud:admin"}},
		"unknown role":        {commonName: "ann", organizations: []string{"mycloud:root"}},
		"registration":        {commonName: "ann", organizations: []string{"mycloud:registration"}},
		"no name":             {organizations: []string{"mycloud:admin"}},
		"expired":             {commonName: "ann", organizations: []string{"mycloud:admin"}, expired: true},
	} {
		cert := &x509.Certificate{Subject: pkix.Name{CommonName: tc.commonName, Organization: tc.organizations}, NotAfter: now.Add(time.Hour)}
		if tc.expired {
			cert.NotAfter = now.Add(-time.Second)
		}
		state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		if who := byCertificate(state, now); who != (Caller{}) {
			t.Errorf("%s, not verified: %+v", name, who)
		}
		state.VerifiedChains = [][]*x509.Certificate{{cert}}
		if tc.want != (Caller{}) {
			tc.want.expires = cert.NotAfter.UTC()
		}
		if who := byCertificate(state, now); who != tc.want {
			t.Errorf("%s: %+v, want %+v", name, who, tc.want)
		}
	}
	if who := byCertificate(nil, now); who != (Caller{}) {
		t.Errorf("plain HTTP: %+v", who)
	}
}
