package clientca_test

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/internal/clientca"
	"quaymaster.dev/test/harness/authority"
)

// Content that is not valid keeps the former authorities, and is reported once. Every other change takes effect at once.
func TestAuthorities(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(content string) {
		t.Helper()
		// As the kubelet replaces files: by another one.
		if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	one, other := authority.New(t, "one", now, now.Add(time.Hour)), authority.New(t, "other", now, now.Add(time.Hour))
	var reported []string
	failed := func(err error) { reported = append(reported, err.Error()) }
	if _, err := clientca.New(file, failed); err == nil || !strings.Contains(err.Error(), "read client CA: ") {
		t.Errorf("no file: %v", err)
	}
	write("none")
	if _, err := clientca.New(file, failed); err == nil || !strings.Contains(err.Error(), "must contain certificates in PEM") {
		t.Errorf("no certificate: %v", err)
	}
	write(string(one.PEM()))
	a, err := clientca.New(file, failed)
	if err != nil {
		t.Fatal(err)
	}
	half := string(other.PEM()) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	for _, step := range []struct {
		name   string
		change func()
		want   []*authority.Pair
		// reports is how many problems have been reported so far.
		reports int
	}{
		{"unchanged", func() {}, []*authority.Pair{one}, 0},
		{"another one", func() { write(string(other.PEM())) }, []*authority.Pair{other}, 0},
		{"both", func() { write(string(one.PEM()) + string(other.PEM())) }, []*authority.Pair{one, other}, 0},
		{"one is not valid", func() { write(half) }, []*authority.Pair{one, other}, 1},
		{"empty", func() { write("") }, []*authority.Pair{one, other}, 2},
		{"gone", func() { _ = os.Remove(file) }, []*authority.Pair{one, other}, 3},
		{"back", func() { write(string(one.PEM())) }, []*authority.Pair{one}, 3},
	} {
		step.change()
		want := x509.NewCertPool()
		for _, pair := range step.want {
			want.AddCert(pair.Cert)
		}
		for range 3 {
			if !a.Pool().Equal(want) {
				t.Errorf("%s: other authorities than wanted", step.name)
			}
		}
		if len(reported) != step.reports {
			t.Errorf("%s: %d reports, want %d: %q", step.name, len(reported), step.reports, reported)
		}
	}
}
