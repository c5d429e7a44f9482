package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// CertManagerOptions holds the dependencies of a CertManager; all of them are required except Objects.
type CertManagerOptions struct {
	// Objects are the Issuers and Certificates to apply, each after those that it refers to. If there are none, others
	// manage them, and only the Secret is used.
	Objects []*unstructured.Unstructured
	// Secret is the name of the Secret that cert-manager writes the serving certificate to.
	Secret string
	// API watches the Secret, and applies, reads and watches the objects of cert-manager.
	API dynamic.Interface
	// Namespace contains all of them.
	Namespace string
	// Clock provides the time.
	Clock clock.Clock
}

// CertManager requests a certificate from cert-manager and serves it as soon as it is written to its Secret. The Secret
// is watched instead of mounted, so that pods start without it and new certificates are not delayed by the kubelet.
// cert-manager may be installed before or after Quaymaster.
type CertManager struct {
	o       CertManagerOptions
	serving atomic.Pointer[tls.Certificate]

	// waiting describes why the objects are not ready, and unusable why the certificate in the Secret cannot be served.
	waiting, unusable problem
}

var _ Source = (*CertManager)(nil)

// NewCertManager returns a source that has no certificate until it is started.
func NewCertManager(o CertManagerOptions) *CertManager {
	c := &CertManager{o: o}
	c.unusable.set("it has not been read yet")
	return c
}

// GetCertificate returns the certificate to serve, or an error that describes why there is none yet.
func (c *CertManager) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := c.serving.Load(); cert != nil {
		return cert, nil
	}
	missing := cmp.Or(c.waiting.String(), fmt.Sprintf("secret %q: %s", c.o.Secret, &c.unusable))
	return nil, errors.New("waiting for cert-manager: " + missing)
}

// Start watches the Secret and keeps the objects of cert-manager applied until the context ends.
func (c *CertManager) Start(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() {
		secrets := c.o.API.Resource(secretsResource).Namespace(c.o.Namespace)
		watchNamed(ctx, secrets, c.o.Secret, func(secret *unstructured.Unstructured, err error) {
			if err != nil {
				c.unusable.set(err.Error()) // the watch logs it, and retries
			} else {
				c.load(ctx, secret)
			}
		})
	})
	if len(c.o.Objects) > 0 {
		running.Go(func() { c.keepApplied(ctx) })
	}
	running.Wait()
	return nil
}

// load serves the certificate of the Secret. If that is unusable, the last certificate stays in use.
func (c *CertManager) load(ctx context.Context, secret *unstructured.Unstructured) {
	var pair *tls.Certificate
	err := errors.New("it does not exist; a Certificate of cert-manager must create it")
	if secret != nil {
		var read *corev1.Secret
		if read, err = typed[corev1.Secret](secret); err == nil {
			pair, err = parsePair(read.Data, c.o.Clock.Now())
		}
	}
	logger := klog.FromContext(ctx)
	old := c.serving.Load()
	if err != nil {
		if c.unusable.set(err.Error()) && old != nil {
			logger.Info("The certificate in the Secret is unusable; the last one stays in use",
				"secret", c.o.Secret, "reason", err.Error(), "expires", old.Leaf.NotAfter)
		}
		return
	}
	c.unusable.set("")
	if old == nil || !old.Leaf.Equal(pair.Leaf) {
		c.serving.Store(pair)
		logger.Info("Serving a new certificate", "secret", c.o.Secret, "expires", pair.Leaf.NotAfter)
	}
}
