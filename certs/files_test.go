package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// pemFiles holds the paths of a certificate and its key.
type pemFiles struct{ cert, key string }

func newPEMFiles(t *testing.T) pemFiles {
	dir := t.TempDir()
	return pemFiles{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
}

func (f pemFiles) write(t *testing.T, pair *issued) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(pair.serving.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		f.cert: {Type: pemCertificate, Bytes: pair.serving.Certificate[0]},
		f.key:  {Type: "PRIVATE KEY", Bytes: key},
	} {
		// Rename, as the kubelet does, so that readers see either the old or the new file.
		if err := os.WriteFile(file+".tmp", pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".tmp", file); err != nil {
			t.Fatal(err)
		}
	}
}

// New files are served without a restart, and no request fails in the meantime, on old or new connections.
func TestFilesReloadUnderLoad(t *testing.T) {
	files := newPEMFiles(t)
	first, second := mustIssue(t, time.Now(), day, "127.0.0.1"), mustIssue(t, time.Now(), day, "127.0.0.1")
	files.write(t, first)
	source, err := certwatcher.New(files.cert, files.key)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := source.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	config := &tls.Config{}
	ServerOptions(source, false)(config)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
	}
	running.Go(func() { _ = server.Serve(listener) })
	var load sync.WaitGroup
	defer running.Wait()
	defer server.Close()
	defer load.Wait()
	defer cancel()

	roots := x509.NewCertPool()
	roots.AddCert(first.authority)
	roots.AddCert(second.authority)
	url := "https://" + listener.Addr().String()
	for _, keepAlives := range []bool{true, false} {
		load.Go(func() {
			c := newClient(roots, keepAlives)
			defer c.CloseIdleConnections()
			for ctx.Err() == nil && !t.Failed() {
				call(t, c, url)
			}
		})
	}
	fresh := newClient(roots, false)
	if got := call(t, fresh, url); !got.Equal(first.serving.Leaf) {
		t.Fatal("first certificate is not served")
	}
	files.write(t, second)
	deadline := time.Now().Add(30 * time.Second)
	for !call(t, fresh, url).Equal(second.serving.Leaf) {
		if t.Failed() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("first certificate is still served")
		}
	}
}

func TestServerOptions(t *testing.T) {
	pair := mustIssue(t, time.Now(), day, "127.0.0.1")
	roots := x509.NewCertPool()
	roots.AddCert(pair.authority)
	tests := map[string]struct {
		http2    bool
		client   *tls.Config
		protocol string
		failure  string
	}{
		"HTTP/1.1":          {false, &tls.Config{NextProtos: []string{"h2", "http/1.1"}}, "http/1.1", ""},
		"HTTP/2 if enabled": {true, &tls.Config{NextProtos: []string{"h2", "http/1.1"}}, "h2", ""},
		"TLS 1.2":           {false, &tls.Config{MaxVersion: tls.VersionTLS12}, "", ""},
		"TLS 1.1": {
			false, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "", "protocol version not supported",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{}
			ServerOptions(fixed{pair}, test.http2)(config)
			listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if conn, err := listener.Accept(); err == nil {
					_ = conn.(*tls.Conn).Handshake()
					_ = conn.Close()
				}
			}()
			defer func() { _ = listener.Close(); <-done }()
			test.client.RootCAs = roots
			conn, err := tls.Dial("tcp", listener.Addr().String(), test.client)
			if test.failure != "" {
				if err == nil || !strings.Contains(err.Error(), test.failure) {
					t.Errorf("got %v, want %s", err, test.failure)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if got := conn.ConnectionState().NegotiatedProtocol; got != test.protocol {
				t.Errorf("protocol is %q, want %q", got, test.protocol)
			}
		})
	}
}

func TestRegisterExpiry(t *testing.T) {
	registry := prometheus.NewRegistry()
	RegisterExpiry(registry, fixed{mustIssue(t, now, day, "127.0.0.1")})
	const want = `# HELP quaymaster_webhook_certificate_expiration_timestamp_seconds Expiry of the serving certificate of the webhooks, in seconds since 1970; 0 if there is none.
# TYPE quaymaster_webhook_certificate_expiration_timestamp_seconds gauge
quaymaster_webhook_certificate_expiration_timestamp_seconds 1.7779824e+09
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
