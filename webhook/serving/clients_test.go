package serving

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	clocktesting "k8s.io/utils/clock/testing"

	"quaymaster.dev/test/harness/authority"
)

func TestClients(t *testing.T) {
	now := time.Now()
	from, until := now.Add(-time.Hour), now.Add(time.Hour)
	ca, foreign := authority.New(t, "callers", from, until), authority.New(t, "others", from, until)
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(ca *authority.Pair) {
		t.Helper()
		if err := os.WriteFile(file+".new", ca.PEM(), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(ca)
	clock := clocktesting.NewFakePassiveClock(now)
	clients, err := NewClients(ClientsOptions{
		CAFile: file, Names: []string{"apiserver", "apiserver.example.com"}, Logger: testr.New(t), Clock: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	var config tls.Config
	counted := 0
	clients.configure(&config, func() { counted++ })
	issue := func(ca *authority.Pair, name string, until time.Time) *x509.Certificate {
		t.Helper()
		pair, err := ca.IssueClient(name, nil, from, until)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Cert
	}
	server, err := ca.IssueServing("apiserver", from, until, "apiserver.example.com")
	if err != nil {
		t.Fatal(err)
	}
	none := (*x509.Certificate)(nil)
	tests := map[string]struct {
		presented *x509.Certificate
		allowed   bool
	}{
		"allowed name":             {issue(ca, "apiserver", until), true},
		"other name":               {issue(ca, "kubelet", until), false},
		"other CA":                 {issue(foreign, "apiserver", until), false},
		"expired":                  {issue(ca, "apiserver", now.Add(-time.Minute)), false},
		"certificate of a server":  {server.Cert, false},
		"the CA's own certificate": {ca.Cert, false},
		"none":                     {none, false},
	}
	rejected := 0
	for name, test := range tests {
		var state tls.ConnectionState
		if test.presented != none {
			state.PeerCertificates = []*x509.Certificate{test.presented}
		}
		err := config.VerifyConnection(state)
		if (err == nil) != test.allowed {
			t.Errorf("%s: %v", name, err)
		}
		if !test.allowed {
			rejected++
		}
	}
	if counted != rejected {
		t.Errorf("%d rejections counted, want %d", counted, rejected)
	}

	// Another CA takes effect at once.
	former, newer := []*x509.Certificate{issue(ca, "apiserver", until)}, []*x509.Certificate{issue(foreign, "apiserver", until)}
	write(foreign)
	if clients.verify(former) == nil {
		t.Error("the old CA is still accepted")
	}
	if err := clients.verify(newer); err != nil {
		t.Errorf("the new CA: %v", err)
	}
}

// A DNS name is as good as the common name.
func TestClientWithDNSName(t *testing.T) {
	now := time.Now()
	ca := authority.New(t, "callers", now.Add(-time.Hour), now.Add(time.Hour))
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, ca.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	clients, err := NewClients(ClientsOptions{
		CAFile: file, Names: []string{"apiserver.example.com"}, Logger: testr.New(t), Clock: clocktesting.NewFakePassiveClock(now),
	})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.IssueClient("other", nil, now.Add(-time.Hour), now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"apiserver.example.com": true, "example.com": false} {
		presented := *pair.Cert
		presented.DNSNames = []string{name}
		presented.Subject = pkix.Name{CommonName: "other"}
		if got := clients.verify([]*x509.Certificate{&presented}) == nil; got != want {
			t.Errorf("certificate for %s: allowed: %t, want %t", name, got, want)
		}
	}
}
