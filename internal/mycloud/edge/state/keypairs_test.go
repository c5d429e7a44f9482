package state_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/edge/state"
	"quaymaster.dev/test/harness/cloud"
)

// certificate returns a new key pair.
func certificate(t *testing.T) cloudv1.CertificateSpec {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"shop.test"}, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return cloudv1.CertificateSpec{
		Name:  "shop",
		Chain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		Key:   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}
}

// withholdKeyPairs has the cloud refuse key pairs until the returned value is false.
func withholdKeyPairs(c *cloud.Cloud) *atomic.Bool {
	withheld := &atomic.Bool{}
	withheld.Store(true)
	c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !withheld.Load() || !strings.HasSuffix(r.URL.Path, "/key-pair") {
			return false
		}
		cloud.Problem(w, http.StatusInternalServerError, cloudv1.CodeInternal)
		return true
	})
	return withheld
}

// An edge that stops before it has read a renewed certificate reads it after its start.
func TestRenewedCertificateIsReadAfterRestart(t *testing.T) {
	c := cloud.Start(t, 0)
	before, err := c.Client.CreateCertificate(t.Context(), certificate(t), cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	states, _ := follow(t, c, state.New())
	s := next(t, states)
	if s.KeyPairs[before.ID].Key == "" {
		t.Fatalf("key pairs are %+v", s.KeyPairs)
	}

	withheld := withholdKeyPairs(c)
	renewed := certificate(t)
	after, err := c.Client.UpdateCertificate(t.Context(), before.ID, renewed, cloudapi.WriteOptions{IfMatch: before.Revision})
	if err != nil {
		t.Fatal(err)
	}
	// The state has seen the change once it has what came after it.
	later := group(t, c, "later")
	for s.NodeGroups[later.ID] == nil {
		s = next(t, states)
	}
	path := filepath.Join(t.TempDir(), "state.json")
	if err := s.Save(path); err != nil {
		t.Fatal(err)
	}

	withheld.Store(false)
	loaded, err := state.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	states, _ = follow(t, c, loaded)
	s = next(t, states)
	if got := s.KeyPairs[before.ID]; got.Key != renewed.Key || got.Revision != after.Revision {
		t.Errorf("after the restart, the certificate is that of revision %s, want %s", got.Revision, after.Revision)
	}
}

// Other changes do not wait for a key pair that cannot be read: no time passes on the clock by which failures wait.
func TestUnreadableKeyPairHoldsUpNothing(t *testing.T) {
	c := cloud.Start(t, 0)
	withholdKeyPairs(c)
	if _, err := c.Client.CreateCertificate(t.Context(), certificate(t), cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	states, errs := followWith(t, c, state.New(), clocktesting.NewFakeClock(time.Now()))
	if err := next(t, errs); !strings.Contains(err.Error(), "read certificate") {
		t.Fatalf("got error %v", err)
	}
	for _, name := range []string{"first", "second", "third"} {
		g := group(t, c, name)
		for s := next(t, states); s.NodeGroups[g.ID] == nil; {
			s = next(t, states)
		}
	}
}
