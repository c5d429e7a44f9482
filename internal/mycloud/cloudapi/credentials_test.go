package cloudapi_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/cloudapi/tlsfiles"
	"quaymaster.dev/test/harness/authority"
)

// tlsCloud is a server whose certificate and trusted clients a test replaces.
type tlsCloud struct {
	*httptest.Server
	config atomic.Pointer[tls.Config]
	user   atomic.Value
}

func startTLS(t *testing.T) *tlsCloud {
	t.Helper()
	c := &tlsCloud{}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.user.Store(r.TLS.PeerCertificates[0].Subject.CommonName)
		anyObject(w, r)
	}))
	c.Server.TLS = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.config.Load(), nil },
	}
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

// Files of TLS that are replaced are used without a restart; incomplete ones are not used.
func TestTLSFilesAreReadAgain(t *testing.T) {
	from, until := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	dir := t.TempDir()
	files := tlsfiles.Files{
		CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"),
	}
	save := func(path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := startTLS(t)
	// replace gives the server and the files a new authority and new certificates.
	replace := func(user string) {
		t.Helper()
		ca := authority.New(t, user, from, until)
		serving := ca.Serving(t, from, until)
		client, err := ca.IssueClient(user, nil, from, until)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(serving.PEM(), serving.KeyPEM(t))
		if err != nil {
			t.Fatal(err)
		}
		clients := x509.NewCertPool()
		clients.AddCert(ca.Cert)
		server.config.Store(&tls.Config{
			Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
			MinVersion: tls.VersionTLS12,
		})
		save(files.CA, ca.PEM())
		save(files.Cert, client.PEM())
		save(files.Key, client.KeyPEM(t))
	}
	c, err := cloudapi.New(cloudapi.Options{
		Endpoint: server.URL, Token: cloudapi.StaticToken("t"), TLS: files,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := readOne(t.Context(), c); err == nil || !strings.Contains(err.Error(), files.CA) {
		t.Errorf("without files: %v", err)
	}
	for _, user := range []string{"one", "two"} {
		replace(user)
		if err := readOne(t.Context(), c); err != nil || server.user.Load() != user {
			t.Errorf("the server saw %v, want %s: %v", server.user.Load(), user, err)
		}
	}
	save(files.CA, []byte("-----BEGIN"))
	if err := readOne(t.Context(), c); err != nil {
		t.Errorf("while the file is being replaced: %v", err)
	}
	again, err := cloudapi.New(cloudapi.Options{Endpoint: server.URL, Token: cloudapi.StaticToken("t"), TLS: files})
	if err != nil {
		t.Fatal(err)
	}
	if err := readOne(t.Context(), again); err == nil || !strings.Contains(err.Error(), "must contain certificates") {
		t.Error(err)
	}
}

func TestAnUnknownAuthorityIsNotTrusted(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(anyObject))
	defer server.Close()
	c, err := cloudapi.New(cloudapi.Options{Endpoint: server.URL, Token: cloudapi.StaticToken("t")})
	if err != nil {
		t.Fatal(err)
	}
	err = readOne(t.Context(), c)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("%v", err)
	}
}

// A token is not sent in the clear to another machine, unless that is asked for.
func TestTokenInTheClear(t *testing.T) {
	for endpoint, secure := range map[string]bool{
		"https://10.0.0.1":     true,
		"http://127.0.0.1:80":  true,
		"http://127.1.2.3":     true,
		"http://[::1]:80":      true,
		"http://localhost":     true,
		"http://10.0.0.1":      false,
		"http://cloud.example": false,
		"http://localhost.com": false,
		"http://0.0.0.0":       false,
	} {
		o := cloudapi.Options{Endpoint: endpoint, Token: cloudapi.StaticToken("t")}
		if _, err := cloudapi.New(o); (err == nil) != secure || err != nil && !errors.Is(err, cloudapi.ErrInsecure) {
			t.Errorf("%s: %v", endpoint, err)
		}
		o.AllowInsecureHTTP = true
		if _, err := cloudapi.New(o); err != nil {
			t.Errorf("%s, allowed: %v", endpoint, err)
		}
	}
}
