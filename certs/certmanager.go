package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// CertManagerOptions are what a CertManager needs; all of them are required but Client.
type CertManagerOptions struct {
	// Request is the certificate that is wanted; without a Client only its Secret matters.
	Request Request
	// Client applies the request; nil leaves that to somebody else.
	Client *CertManagerClient
	// Secrets lists and watches the Secret, in its namespace.
	Secrets typedcorev1.SecretInterface
	// Clock tells the time.
	Clock clock.Clock
}

// CertManager asks cert-manager for a certificate and serves what it writes into a Secret, as soon as it does. The Secret is
// watched instead of mounted, so that a pod starts without it and no kubelet delays what is new. cert-manager may be installed
// before us or after us.
type CertManager struct {
	o       CertManagerOptions
	serving atomic.Pointer[tls.Certificate]

	// waiting is why the objects are not in place, unfit why the Secret cannot be served; empty if they are and it can.
	mu             sync.Mutex
	waiting, unfit string
}

var _ Source = (*CertManager)(nil)

// NewCertManager makes a source that has no certificate until it is started.
func NewCertManager(o CertManagerOptions) *CertManager {
	return &CertManager{o: o, unfit: "it has not been read yet"}
}

// NeedLeaderElection is false: every replica serves.
func (c *CertManager) NeedLeaderElection() bool { return false }

// GetCertificate is the certificate to serve, or an error that says why there is none yet.
func (c *CertManager) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := c.serving.Load(); cert != nil {
		return cert, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting != "" {
		return nil, errors.New("waiting for cert-manager: " + c.waiting)
	}
	return nil, fmt.Errorf("waiting for cert-manager: secret %q: %s", c.o.Request.Secret, c.unfit)
}

// Start watches the Secret and keeps cert-manager's objects in place until the context ends.
func (c *CertManager) Start(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() {
		changed := func(secret *corev1.Secret) { c.load(ctx, secret) }
		watchSecret(ctx, secretWatch{api: c.o.Secrets, name: c.o.Request.Secret, changed: changed, failed: c.unread})
	})
	if c.o.Client != nil {
		running.Go(func() { c.keepApplied(ctx) })
	}
	running.Wait()
	return nil
}

// load serves what the Secret has. What it cannot use leaves the last certificate in use.
func (c *CertManager) load(ctx context.Context, secret *corev1.Secret) {
	var pair *tls.Certificate
	err := errors.New("it does not exist; a Certificate of cert-manager has to write it")
	if secret != nil {
		pair, err = parsePair(secret.Data, c.o.Clock.Now())
	}
	logger := klog.FromContext(ctx)
	old := c.serving.Load()
	if err != nil {
		if c.unfitNow(err.Error()) && old != nil {
			logger.Info("The Secret has no certificate that can be served; the last one stays in use",
				"secret", c.o.Request.Secret, "reason", err.Error(), "expires", old.Leaf.NotAfter)
		}
		return
	}
	c.unfitNow("")
	if old != nil && old.Leaf.Equal(pair.Leaf) {
		return
	}
	c.serving.Store(pair)
	logger.Info("Serving a new certificate", "secret", c.o.Request.Secret, "expires", pair.Leaf.NotAfter)
}

// unread remembers why the Secret could not be read. The watch logs it and tries again.
func (c *CertManager) unread(err error) { c.unfitNow(err.Error()) }

// unfitNow tells whether this is news.
func (c *CertManager) unfitNow(reason string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.unfit != reason
	c.unfit = reason
	return news
}
