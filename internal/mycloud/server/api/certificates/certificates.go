// Package certificates serves the certificates of https listeners.
package certificates

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/describe"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/api/write"
	"quaymaster.dev/internal/mycloud/server/certificate"
	"quaymaster.dev/internal/mycloud/server/store"
)

// createCertificateParams holds the parameters of create-certificate.
type createCertificateParams struct {
	write.PostParams
	Body cloudv1.CertificateSpec
}

// Resolve validates what the schema cannot express.
func (p *createCertificateParams) Resolve(huma.Context) []error {
	return failure.Fields(write.ValidateTags(p.Body.Tags))
}

// updateCertificateParams holds the parameters of update-certificate.
type updateCertificateParams struct {
	write.ObjectParams
	Body cloudv1.CertificateSpec
}

// Resolve validates what the schema cannot express.
func (p *updateCertificateParams) Resolve(huma.Context) []error {
	return failure.Fields(write.ValidateTags(p.Body.Tags))
}

// keyPairParams holds the parameters of get-key-pair.
type keyPairParams struct {
	ID string `path:"id" maxLength:"255" doc:"The id of the certificate."`
}

// certificateAnswer is the response to a write of a certificate.
type certificateAnswer = operation.Answer[cloudv1.Certificate]

// api serves the operations.
type api struct {
	read   *read.Reader
	write  *write.Writer
	clock  clock.PassiveClock
	cipher *certificate.Cipher
}

// Register adds the operations of certificates, whose key pairs the cipher encrypts.
func Register(r *read.Reader, w *write.Writer, c clock.PassiveClock, cipher *certificate.Cipher) {
	a := &api{read: r, write: w, clock: c, cipher: cipher}
	certificates := read.View[cloudv1.Certificate]{Kind: store.Certificates}
	const tag, path = "certificates", "/v1/certificates"
	read.RegisterList(r, operation.New("list-certificates", tag, "Certificates"), path, certificates)
	read.RegisterObject(r, operation.New("get-certificate", tag, "A certificate without its chain and key"), path+"/{id}", certificates)
	operation.Write(r.API, operation.New("create-certificate", tag, "Creates a certificate"),
		http.MethodPost, path, []int{http.StatusCreated}, a.createCertificate,
		describe.Means("Stores a chain and its key, which must match. The response does not have them."))
	operation.Write(r.API, operation.New("update-certificate", tag, "Replaces a certificate"),
		http.MethodPut, path+"/{id}", []int{http.StatusOK}, a.updateCertificate,
		describe.Means("All https listeners that name the certificate use the new one."))
	operation.Write(r.API, operation.New("delete-certificate", tag, "Deletes a certificate"),
		http.MethodDelete, path+"/{id}", []int{http.StatusOK}, a.deleteCertificate,
		describe.Means("It fails while a listener names the certificate."))
	operation.Read(r.API, operation.New("get-key-pair", tag, "The chain and the key of a certificate, for edges"),
		path+"/{id}/key-pair", a.keyPair)
}

func (a *api) createCertificate(_ context.Context, p *createCertificateParams) (*certificateAnswer, error) {
	// The chain identifies the request without the key, which no record may depend on.
	request := p.Body
	request.Key = ""
	return write.Post(a.write, p.PostParams, "create certificate", request, func(tx *store.Tx) (*certificateAnswer, error) {
		c := &cloudv1.Certificate{Object: cloudv1.Object{Name: p.Body.Name, Tags: p.Body.Tags}}
		if err := p.CheckTags(store.Certificates.Name, &c.Object); err != nil {
			return nil, err
		}
		if err := write.NameFree(tx, store.Certificates, c.Name); err != nil {
			return nil, err
		}
		if err := a.describeCertificate(c, p.Body); err != nil {
			return nil, err
		}
		answer, err := write.Create(tx, p.DryRun, "cert-", store.Certificates, c)
		if err != nil || p.DryRun {
			return answer, err
		}
		return answer, a.keepKeyPair(tx, c.ID, p.Body)
	})
}

func (a *api) updateCertificate(_ context.Context, p *updateCertificateParams) (*certificateAnswer, error) {
	return write.Change(a.write, p.Params, func(tx *store.Tx) (*certificateAnswer, error) {
		c, err := write.Checked(tx, store.Certificates, p.ObjectParams)
		if err != nil {
			return nil, err
		}
		if p.Body.Name != c.Name {
			if err := write.NameFree(tx, store.Certificates, p.Body.Name); err != nil {
				return nil, err
			}
		}
		c.Name, c.Tags = p.Body.Name, p.Body.Tags
		if err := a.describeCertificate(c, p.Body); err != nil {
			return nil, err
		}
		if _, err := store.Certificates.Put(tx, c); err != nil {
			return nil, err
		}
		return write.Done(http.StatusOK, store.Certificates, c), a.keepKeyPair(tx, c.ID, p.Body)
	})
}

// describeCertificate sets what is derived from the chain, if chain and key are valid.
func (a *api) describeCertificate(c *cloudv1.Certificate, s cloudv1.CertificateSpec) error {
	parsed, problems := certificate.Parse(s.Chain, s.Key, a.clock.Now())
	if len(problems) > 0 {
		return failure.Invalid(problems)
	}
	c.NotAfter, c.DNSNames = parsed.NotAfter, parsed.DNSNames
	c.Fingerprint, c.ChainFingerprint = parsed.Fingerprint, parsed.ChainFingerprint
	return nil
}

func (a *api) keepKeyPair(tx *store.Tx, id string, s cloudv1.CertificateSpec) error {
	sealed, err := a.cipher.Seal(id, cloudv1.KeyPair{Chain: s.Chain, Key: s.Key})
	if err != nil {
		return err
	}
	return store.KeyPairs.Set(tx, id, sealed)
}

func (a *api) deleteCertificate(_ context.Context, p *write.ObjectParams) (*certificateAnswer, error) {
	return write.Change(a.write, p.Params, func(tx *store.Tx) (*certificateAnswer, error) {
		c, err := write.Checked(tx, store.Certificates, *p)
		if err != nil {
			return nil, err
		}
		for _, id := range store.LoadBalancers.Find(tx, store.ReferenceTerm(store.Certificates.Name, c.ID)) {
			return nil, failure.New(http.StatusConflict, cloudv1.CodeConflict, "certificate %s is used by listeners of load balancer %s",
				c.ID, id).On(store.LoadBalancers.Name, id)
		}
		if err := store.KeyPairs.Delete(tx, c.ID); err != nil {
			return nil, err
		}
		if err := store.Certificates.Delete(tx, c.ID); err != nil {
			return nil, err
		}
		return write.Done(http.StatusOK, store.Certificates, c), nil
	})
}

// secretAnswer is a response that must not be kept by anything on its way.
type secretAnswer[T any] struct {
	CacheControl string `header:"Cache-Control" doc:"no-store: the key must not be kept by caches."`
	Body         T
}

func (a *api) keyPair(_ context.Context, p *keyPairParams) (*secretAnswer[cloudv1.KeyPair], error) {
	var sealed string
	err := a.read.Store.View(func(tx *store.Tx) error {
		if _, err := store.Certificates.Get(tx, p.ID); err != nil {
			return failure.Absent(err)
		}
		sealed = store.KeyPairs.Get(tx, p.ID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	pair, err := a.cipher.Open(p.ID, sealed)
	if err != nil {
		return nil, err
	}
	return &secretAnswer[cloudv1.KeyPair]{CacheControl: "no-store", Body: pair}, nil
}
