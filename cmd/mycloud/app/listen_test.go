package app_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/cloudapi/tlsfiles"
	"quaymaster.dev/test/harness/authority"
)

// TestTLS: the API is served by HTTPS only, and a certificate that was replaced is used without a restart.
func TestTLS(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	// issue writes a certificate of a new authority, and returns the file with the authority.
	issue := func(name string) (ca string) {
		t.Helper()
		by := authority.New(t, name, now, now.Add(time.Hour))
		pair, err := by.IssueServing("mycloud", now, now.Add(time.Hour), "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := pair.Write(dir, "tls"); err != nil {
			t.Fatal(err)
		}
		return write(t, name+".crt", string(by.PEM()))
	}
	first := issue("first")
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	s := startServer(t, t.TempDir(), "--tls-cert-file", cert, "--tls-key-file", key)
	meta := func(ca string) error {
		c, err := cloudapi.New(cloudapi.Options{
			Endpoint: s.endpoint, Token: cloudapi.StaticToken(s.token), TLS: tlsfiles.Files{CA: ca},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Meta(t.Context())
		return err
	}
	if err := meta(first); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(strings.Replace(s.endpoint, "https", "http", 1) + "/v1/meta")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP: status %d", resp.StatusCode)
	}

	second := issue("second")
	if err := meta(second); err != nil {
		t.Errorf("after the certificate was replaced: %v", err)
	}
	if err := meta(first); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a client that trusts the former authority alone: %v", err)
	}
	// A connection that cannot be encrypted fails; the next one, after the repair, does not.
	content, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := meta(second); err == nil {
		t.Error("a connection without a key is encrypted")
	}
	if err := os.WriteFile(key, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := meta(second); err != nil {
		t.Errorf("after the key was repaired: %v", err)
	}
}
