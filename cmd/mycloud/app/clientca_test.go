package app_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/mycloud/app"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/cloudapi/tlsfiles"
	"quaymaster.dev/test/harness/authority"
)

// TestClientCertificates: certificates serve instead of tokens, with name and role, and authorities that are replaced count
// without a restart; so do the certificates of clients.
func TestClientCertificates(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	root := authority.New(t, "serving", now, now.Add(time.Hour))
	serving, err := root.IssueServing("mycloud", now, now.Add(time.Hour), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := serving.Write(dir, "tls")
	if err != nil {
		t.Fatal(err)
	}
	ca := write(t, "ca.crt", string(root.PEM()))
	clients := authority.New(t, "clients", now, now.Add(time.Hour))
	clientCA := filepath.Join(dir, "clients.crt")
	if err := os.WriteFile(clientCA, clients.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	issue := func(by *authority.Pair, name, role string) tlsfiles.Files {
		t.Helper()
		pair, err := by.IssueClient(name, []string{role}, now, now.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		f := tlsfiles.Files{CA: ca}
		if f.Cert, f.Key, err = pair.Write(dir, name); err != nil {
			t.Fatal(err)
		}
		return f
	}
	auditLog := filepath.Join(dir, "audit.log")
	s := startServer(t, t.TempDir(), "--tls-cert-file", cert, "--tls-key-file", key, "--client-ca-file", clientCA, "--audit-log-file", auditLog)
	client := func(f tlsfiles.Files, token string) *cloudapi.Client {
		t.Helper()
		c, err := cloudapi.New(cloudapi.Options{Endpoint: s.endpoint, Token: cloudapi.StaticToken(token), TLS: f})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ctx := t.Context()
	createWith := func(f tlsfiles.Files, token, name string) error {
		_, err := client(f, token).CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: name}, cloudapi.WriteOptions{})
		return err
	}
	writer, reader := issue(clients, "cluster-1", "mycloud:write"), issue(clients, "ann", "mycloud:read")
	if err := createWith(writer, "", "one"); err != nil {
		t.Errorf("role write: %v", err)
	}
	for what, got := range map[string]struct {
		err  error
		code string
	}{
		"role read":                       {createWith(reader, "", "two"), cloudv1.CodeForbidden},
		"no role":                         {createWith(issue(clients, "other", "admin"), "", "two"), cloudv1.CodeUnauthenticated},
		"no certificate":                  {createWith(tlsfiles.Files{CA: ca}, "", "two"), cloudv1.CodeUnauthenticated},
		"a certificate and a wrong token": {createWith(writer, "guess", "two"), cloudv1.CodeUnauthenticated},
	} {
		if !cloudapi.HasCode(got.err, got.code) {
			t.Errorf("%s: %v, want %s", what, got.err, got.code)
		}
	}
	if err := createWith(issue(authority.New(t, "strangers", now, now.Add(time.Hour)), "mallory", "mycloud:admin"), "", "two"); err == nil ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("certificate of another authority: %v", err)
	}
	edge := client(issue(clients, "edge-1", "mycloud:edge"), "")
	if _, err := edge.RegisterEdge(ctx, cloudv1.EdgeSpec{Name: "edge-2"}, cloudapi.WriteOptions{}); !cloudapi.HasCode(err, cloudv1.CodeForbidden) {
		t.Errorf("an edge registers under another name: %v", err)
	}
	registered, err := edge.RegisterEdge(ctx, cloudv1.EdgeSpec{Name: "edge-1"}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := edge.Heartbeat(ctx, registered.ID, cloudv1.Heartbeat{}); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	if log, err := os.ReadFile(auditLog); err != nil || !bytes.Contains(log, []byte(`"actor":{"kind":"certificate","name":"cluster-1","role":"write"}`)) {
		t.Errorf("audit log: %v\n%s", err, log)
	}
	// Clients that only speak HTTP/1.1 are served, too.
	pair, err := tls.LoadX509KeyPair(reader.Cert, reader.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root.Cert)
	config := &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: roots, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	}
	resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: config}}).Get(s.endpoint + "/v1/meta")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 1 {
		t.Errorf("HTTP/1.1: %s %s", resp.Proto, resp.Status)
	}

	// The command takes files instead of a token.
	t.Setenv("MYCLOUD_TOKEN", "")
	var out, problems bytes.Buffer
	if code := app.Run(ctx, []string{"get", "node-groups", "--endpoint", s.endpoint, "--ca-file", ca, "--client-cert-file", reader.Cert,
		"--client-key-file", reader.Key}, &out, &problems); code != 0 || !strings.Contains(out.String(), "one") {
		t.Errorf("mycloud get: %d %s %s", code, &out, &problems)
	}

	// While the file is not complete, the former authorities count.
	if err := os.WriteFile(clientCA, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client(reader, "").Meta(ctx); err != nil {
		t.Errorf("while the authorities are replaced: %v", err)
	}
	next := authority.New(t, "next", now, now.Add(time.Hour))
	if err := os.WriteFile(clientCA, next.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client(reader, "").Meta(ctx); err == nil {
		t.Error("a certificate of the former authority is accepted")
	}
	if err := createWith(issue(next, "cluster-1", "mycloud:write"), "", "two"); err != nil {
		t.Errorf("a certificate of the new authority: %v", err)
	}
}
