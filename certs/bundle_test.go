package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// issued is a serving certificate with the authority that signed it.
type issued struct {
	authority *x509.Certificate
	serving   *tls.Certificate
}

func mustIssue(t *testing.T, from time.Time, validity time.Duration, hosts ...string) *issued {
	t.Helper()
	ca := mustAuthority(t, from, validity)
	return &issued{authority: ca.Leaf, serving: mustSign(t, ca, from, validity, hosts...)}
}

func mustAuthority(t *testing.T, from time.Time, validity time.Duration) *tls.Certificate {
	t.Helper()
	ca, err := newAuthority(from, validity)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func mustSign(t *testing.T, ca *tls.Certificate, from time.Time, validity time.Duration, hosts ...string) *tls.Certificate {
	t.Helper()
	serving, err := issue(ca, from, validity, hosts)
	if err != nil {
		t.Fatal(err)
	}
	return serving
}

func TestIssue(t *testing.T) {
	pair := mustIssue(t, now, 30*day, "quaymaster-webhook.quaymaster-system.svc", "127.0.0.1", "::1")
	roots := x509.NewCertPool()
	roots.AddCert(pair.authority)
	tests := map[string]struct {
		host string
		at   time.Time
		good bool
	}{
		"DNS name":          {"quaymaster-webhook.quaymaster-system.svc", now, true},
		"IPv4":              {"127.0.0.1", now, true},
		"IPv6":              {"::1", now, true},
		"clock behind ours": {"127.0.0.1", now.Add(-4 * time.Minute), true},
		"at expiry":         {"127.0.0.1", now.Add(30 * day), true},
		"expired":           {"127.0.0.1", now.Add(30*day + time.Second), false},
		"other host":        {"localhost", now, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := pair.serving.Leaf.Verify(x509.VerifyOptions{DNSName: test.host, Roots: roots, CurrentTime: test.at})
			if (err == nil) != test.good {
				t.Errorf("got %v", err)
			}
		})
	}
	if pair.serving.Leaf.IsCA {
		t.Error("the serving certificate is a certificate authority")
	}
}

func TestIssueNotBeyondAuthority(t *testing.T) {
	ca := mustAuthority(t, now, day)
	if got := mustSign(t, ca, now.Add(day/2), day, "localhost").Leaf.NotAfter; !got.Equal(ca.Leaf.NotAfter) {
		t.Errorf("the certificate expires at %s, its authority at %s", got, ca.Leaf.NotAfter)
	}
}

func TestMergeBundle(t *testing.T) {
	ours := mustIssue(t, now, day).authority
	replica := mustIssue(t, now.Add(-time.Hour), day).authority
	expired := mustIssue(t, now.Add(-2*day), day).authority
	bundle := func(certs ...*x509.Certificate) []byte {
		var all []byte
		for _, c := range certs {
			all = append(all, mergeBundle(nil, []*x509.Certificate{c}, always, now)...)
		}
		return all
	}
	tests := map[string]struct {
		bundle []byte
		ours   []*x509.Certificate
		want   []byte
	}{
		"empty":                            {nil, []*x509.Certificate{ours}, bundle(ours)},
		"in place":                         {bundle(ours), []*x509.Certificate{ours}, bundle(ours)},
		"another replica's is kept":        {bundle(replica), []*x509.Certificate{ours}, bundle(ours, replica)},
		"same result on the other replica": {bundle(ours), []*x509.Certificate{replica}, bundle(ours, replica)},
		"expired ones are removed":         {bundle(expired), []*x509.Certificate{ours}, bundle(ours)},
		"not a certificate":                {[]byte("# mine\nxyz"), []*x509.Certificate{ours}, bundle(ours)},
		"two of ours during rotation":      {bundle(replica), []*x509.Certificate{replica, ours}, bundle(ours, replica)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := mergeBundle(test.bundle, test.ours, always, now); !bytes.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// Many restarts within the validity of one certificate must not fill the configuration.
func TestMergeBundleIsBounded(t *testing.T) {
	var bundle []byte
	for i := range 3 * maxKept {
		at := now.Add(time.Duration(i) * time.Minute)
		ours := mustIssue(t, at, 30*day).authority
		bundle = mergeBundle(bundle, []*x509.Certificate{ours}, always, at)
		if !parseBundle(bundle)[0].Equal(ours) {
			t.Fatalf("the newest authority is missing after %d restarts", i)
		}
	}
	if got := len(parseBundle(bundle)); got != maxKept+1 {
		t.Errorf("bundle has %d authorities, want %d", got, maxKept+1)
	}
}

// Foreign authorities stay while they are wanted, each once, and only so many. What is not a certificate, or too large for
// one, is dropped.
func TestMergeBundleKeepsForeignAuthorities(t *testing.T) {
	ours := mustIssue(t, now, day).authority
	foreign := foreignAuthority(t)
	merge := func(bundle []byte, keep func(*x509.Certificate) bool) []*x509.Certificate {
		return parseBundle(mergeBundle(bundle, []*x509.Certificate{ours}, keep, now))
	}
	never := func(*x509.Certificate) bool { return false }
	var many []byte
	for range 2 * maxKept {
		many = append(many, foreignAuthority(t)...)
	}
	odd := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})
	broken := pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: []byte("x")})
	tests := map[string]struct {
		bundle []byte
		keep   func(*x509.Certificate) bool
		want   int
	}{
		"wanted":          {foreign, always, 2},
		"no longer":       {foreign, never, 1},
		"twice":           {slices.Concat(foreign, foreign), always, 2},
		"too many":        {many, always, 1 + maxKept},
		"expired":         {pemOf(mustForeign(t, now.Add(-3*keepForeign), "").Leaf), always, 1},
		"among odd PEM":   {slices.Concat(odd, broken, foreign, []byte("text\n-----BEGIN CERTIFICATE-----\n")), always, 2},
		"larger than any": {pemOf(mustForeign(t, now, strings.Repeat("x", maxSize)).Leaf), always, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := merge(test.bundle, test.keep); len(got) != test.want {
				t.Errorf("bundle has %d authorities, want %d", len(got), test.want)
			}
		})
	}
}

func always(*x509.Certificate) bool { return true }

// foreignAuthority returns a bundle with an authority that none of our replicas created.
func foreignAuthority(t *testing.T) []byte {
	t.Helper()
	return pemOf(mustForeign(t, now, "").Leaf)
}

// mustForeign returns such an authority, which is valid for twice as long as it may stay in a bundle, and has an extra name.
func mustForeign(t *testing.T, from time.Time, name string) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{Organization: []string{"Example"}, CommonName: name},
		NotBefore: from, NotAfter: from.Add(2 * keepForeign), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}
}

func pemOf(cert *x509.Certificate) []byte { return encodeBundle([]*x509.Certificate{cert}) }
