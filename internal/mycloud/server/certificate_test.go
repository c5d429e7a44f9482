package server_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/test/harness/authority"
	cloudtest "quaymaster.dev/test/harness/cloud"
)

// pair is a certificate with its key.
type pair struct {
	cert       *x509.Certificate
	chain, key string
}

// newAuthority returns an authority whose certificates are valid for an hour.
func newAuthority(t *testing.T) *authority.Pair {
	t.Helper()
	return authority.New(t, "test", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
}

// newPair returns the certificate of a new authority for a name.
func newPair(t *testing.T, name string) pair {
	t.Helper()
	return issue(t, name, newAuthority(t), time.Now().Add(time.Hour))
}

func issue(t *testing.T, name string, by *authority.Pair, until time.Time) pair {
	t.Helper()
	issued, err := by.IssueServing(name, time.Now().Add(-time.Hour), until, name)
	if err != nil {
		t.Fatal(err)
	}
	return pair{cert: issued.Cert, chain: string(issued.PEM()), key: string(issued.KeyPEM(t))}
}

func (p pair) spec(name string) cloudv1.CertificateSpec {
	return cloudv1.CertificateSpec{Name: name, Chain: p.chain, Key: p.key}
}

func (c *cloud) createCertificate(name string, p pair) *cloudv1.Certificate {
	c.t.Helper()
	return must[*cloudv1.Certificate](c.t)(
		c.client.CreateCertificate(c.t.Context(), p.spec(name), cloudapi.WriteOptions{IdempotencyKey: name}),
	)
}

func TestCertificates(t *testing.T) {
	c := newCloud(t)
	by := newAuthority(t)
	leaf := issue(t, "shop.example.com", by, time.Now().Add(time.Hour))
	created := c.createCertificate("shop", leaf)
	sum := sha256.Sum256(leaf.cert.Raw)
	if !strings.HasPrefix(created.ID, "cert-") || !created.NotAfter.Equal(leaf.cert.NotAfter) {
		t.Errorf("created: %+v", created)
	}
	diff(t, "fingerprint", hex.EncodeToString(sum[:]), created.Fingerprint)
	diff(t, "names", []string{"shop.example.com"}, created.DNSNames)
	diff(t, "id of the same request again", created.ID, c.createCertificate("shop", leaf).ID)
	_, err := c.client.CreateCertificate(t.Context(), leaf.spec("shop"), cloudapi.WriteOptions{})
	if !cloudapi.HasCode(err, cloudv1.CodeNameTaken) {
		t.Errorf("the same name again: %v", err)
	}
	c.send("POST", "/v1/certificates?dry_run=true", leaf.spec("dry")).want(t, 201, "")

	// The same certificate with its issuer is a change, so that edges read it again.
	since := c.changes("0").Revision
	whole := leaf
	whole.chain += string(by.PEM())
	now := must[*cloudv1.Certificate](t)(
		c.client.UpdateCertificate(t.Context(), created.ID, whole.spec("shop"), cloudapi.WriteOptions{IfMatch: created.Revision}),
	)
	diff(t, "fingerprint", created.Fingerprint, now.Fingerprint)
	diff(t, "changes", []string{"certificate " + created.ID + " upsert"}, short(c.changes(since, cloudv1.KindCertificate)))
	diff(t, "key pair", &cloudv1.KeyPair{Chain: whole.chain, Key: whole.key},
		must[*cloudv1.KeyPair](t)(c.with(readerToken).KeyPair(t.Context(), created.ID)))
	_, err = c.client.UpdateCertificate(t.Context(), created.ID, leaf.spec("shop"), cloudapi.WriteOptions{IfMatch: created.Revision})
	if !cloudapi.HasCode(err, cloudv1.CodeStaleRevision) {
		t.Errorf("an update of what is no longer current: %v", err)
	}

	s := tree("one")
	s.Listeners[0].Key, s.Listeners[0].Port, s.Listeners[0].Protocol = "tcp/443", 443, "https"
	s.Listeners[0].TLS = &cloudv1.TLS{CertificateIDs: []string{created.ID}}
	lb := c.createLB(s)
	err = c.client.DeleteCertificate(t.Context(), created.ID, cloudapi.WriteOptions{})
	if !cloudapi.HasCode(err, cloudv1.CodeConflict) || !strings.Contains(err.Error(), lb.ID) {
		t.Errorf("deletion of a certificate in use: %v", err)
	}
	if _, err := c.client.DeleteLoadBalancer(t.Context(), lb.ID, cloudapi.WriteOptions{IfMatch: lb.Revision}); err != nil {
		t.Fatal(err)
	}
	if err := c.client.DeleteCertificate(t.Context(), created.ID, cloudapi.WriteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := c.with(readerToken).KeyPair(t.Context(), created.ID); !cloudapi.IsNotFound(err) {
		t.Errorf("key pair of a deleted certificate: %v", err)
	}
	// The certificates of a listener may be somewhere else, and be created later: the edges report those that are missing.
	s.Listeners[0].TLS.CertificateIDs = []string{"cert-later"}
	c.createLB(s)
}

func TestInvalidCertificates(t *testing.T) {
	c := newCloud(t)
	by := newAuthority(t)
	leaf := issue(t, "shop.example.com", by, time.Now().Add(time.Hour))
	old := issue(t, "old.example.com", by, time.Now().Add(-time.Minute))
	for name, test := range map[string]struct {
		chain, key string
		want       []string
	}{
		"neither":            {"x", "y", []string{"/chain must consist of certificates in PEM", "/key must be one private key in PEM"}},
		"swapped":            {leaf.key, leaf.chain, []string{`/chain must consist of certificates in PEM, but has a block of type "EC PRIVATE KEY"`, "/key must be one private key in PEM"}},
		"text after":         {leaf.chain + "x", leaf.key, []string{"/chain must consist of certificates in PEM"}},
		"key of another one": {leaf.chain, old.key, []string{"/key must be the key of the first certificate of the chain"}},
		"issuer first":       {string(by.PEM()) + leaf.chain, leaf.key, []string{"/chain must begin with the certificate of the key, which is number 2", "/chain must have each certificate followed by its issuer; number 2 did not sign number 1"}},
		"wrong issuer":       {leaf.chain + old.chain, leaf.key, []string{"/chain must have each certificate followed by its issuer; number 2 did not sign number 1"}},
		"expired":            {old.chain, old.key, []string{"/chain must not have expired; the certificate was valid until " + old.cert.NotAfter.UTC().Format(time.RFC3339)}},
		"encrypted": {leaf.chain, string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})),
			[]string{"/key must not be encrypted with a passphrase"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.send("POST", "/v1/certificates", cloudv1.CertificateSpec{Name: "x", Chain: test.chain, Key: test.key}).
				want(t, 422, cloudv1.CodeInvalid)
			var problems []string
			for _, e := range got.problem.Errors {
				problems = append(problems, e.Pointer+" "+e.Detail)
			}
			diff(t, "problems", test.want, problems)
			if lines := strings.Split(test.key, "\n"); len(lines) > 1 && strings.Contains(string(got.body), lines[1]) {
				t.Errorf("the response quotes the key: %s", got.body)
			}
		})
	}
}

// TestKeysAreNotReadable checks that neither the disk nor any response but that for edges has the key.
func TestKeysAreNotReadable(t *testing.T) {
	c := newCloud(t)
	p := newPair(t, "shop.example.com")
	created := c.createCertificate("shop", p)
	secret := strings.Split(p.key, "\n")[1]
	for _, path := range []string{"/v1/certificates", "/v1/certificates/" + created.ID, "/v1/changes?since=0"} {
		body := string(c.send("GET", path, nil).want(t, 200, "").body)
		if strings.Contains(body, secret) || strings.Contains(body, "PRIVATE") {
			t.Errorf("%s has the key: %s", path, body)
		}
	}
	secretly := c.send("GET", "/v1/certificates/"+created.ID+"/key-pair", nil, "Authorization", "Bearer "+readerToken).want(t, 200, "")
	diff(t, "whether others may keep the key", "no-store", secretly.header.Get("Cache-Control"))
	again := c.send("POST", "/v1/certificates", p.spec("shop"), "Idempotency-Key", "shop").want(t, 201, "")
	if strings.Contains(string(again.body), secret) || again.header.Get(cloudv1.HeaderIdempotencyReplayed) != "true" {
		t.Errorf("the repeated response: %s", again.body)
	}
	c.stop()
	if bytes.Contains(rawState(t, c.dir), []byte(secret)) {
		t.Error("the key is on the disk in the clear")
	}
	info, err := os.Stat(filepath.Join(c.dir, "encryption.key"))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "mode of the encryption key", os.FileMode(0o600), info.Mode().Perm())

	// The next server decrypts with the same key, and says so if it has another one.
	next := newCloud(t, withDir(c.dir))
	got := must[*cloudv1.KeyPair](t)(next.with(readerToken).KeyPair(t.Context(), created.ID))
	diff(t, "key pair after a restart", p.key, got.Key)
	next.stop()
	for key, want := range map[string]string{
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=": "encrypted with a different key",
		"short": "must be 32 bytes in base64",
	} {
		_, err := cloudtest.OpenServer(t, server.Options{DataDir: c.dir, Token: token, EncryptionKey: key})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

// A server that cannot decrypt the state leaves the data directory as it is, so that restoring the key is enough.
func TestMissingKeyWritesNothing(t *testing.T) {
	c := newCloud(t)
	c.createCertificate("shop", newPair(t, "shop.example.com"))
	c.stop()
	key := filepath.Join(c.dir, "encryption.key")
	content := must[[]byte](t)(os.ReadFile(key))
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	more := exampleInventory(t)
	added := more.Instances[0]
	added.ID, added.Hostname = "i-added", "added"
	more.Instances = append(more.Instances, added)
	for given, want := range map[string]string{
		"": "restore the file", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=": "encrypted with a different key",
	} {
		_, err := cloudtest.OpenServer(t, server.Options{
			DataDir: c.dir, Token: token, EncryptionKey: given, Inventory: more,
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("key %q: %v", given, err)
		}
		if _, err := os.Stat(key); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("key %q: there is a new encryption.key: %v", given, err)
		}
	}
	if err := os.WriteFile(key, content, 0o600); err != nil {
		t.Fatal(err)
	}
	next := newCloud(t, withDir(c.dir))
	if _, err := next.client.Instance(t.Context(), added.ID); err == nil {
		t.Error("the inventory was added to the state")
	}
}
