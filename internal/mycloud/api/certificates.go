package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/certificate"
	"quaymaster.dev/internal/mycloud/store"
)

// CreateCertificateParams holds the parameters of create-certificate.
type CreateCertificateParams struct {
	PostParams
	Body cloudv1.CertificateSpec
}

// Resolve validates what the schema cannot express.
func (p *CreateCertificateParams) Resolve(huma.Context) []error {
	return failure.Fields(validateTags(p.Body.Tags))
}

// UpdateCertificateParams holds the parameters of update-certificate.
type UpdateCertificateParams struct {
	DeleteParams
	Body cloudv1.CertificateSpec
}

// Resolve validates what the schema cannot express.
func (p *UpdateCertificateParams) Resolve(huma.Context) []error {
	return failure.Fields(validateTags(p.Body.Tags))
}

// KeyPairParams holds the parameters of get-key-pair.
type KeyPairParams struct {
	ID string `path:"id" maxLength:"255" doc:"The id of the certificate."`
}

// certificateAnswer is the response to a write of a certificate.
type certificateAnswer = Answer[cloudv1.Certificate]

func (a *API) registerCertificates() {
	certificates := view[cloudv1.Certificate]{kind: store.Certificates}
	const tag, path = "certificates", "/v1/certificates"
	registerList(a, operation{"list-certificates", tag, "Certificates"}, path, certificates)
	registerGet(a, operation{"get-certificate", tag, "A certificate without its chain and key"}, path+"/{id}", certificates)
	registerWrite(a, operation{"create-certificate", tag, "Creates a certificate"},
		http.MethodPost, path, []int{http.StatusCreated}, a.createCertificate,
		means("Stores a chain and its key, which must match. The response does not have them."))
	registerWrite(a, operation{"update-certificate", tag, "Replaces a certificate"},
		http.MethodPut, path+"/{id}", []int{http.StatusOK}, a.updateCertificate,
		means("All https listeners that name the certificate use the new one."))
	registerWrite(a, operation{"delete-certificate", tag, "Deletes a certificate"},
		http.MethodDelete, path+"/{id}", []int{http.StatusOK}, a.deleteCertificate,
		means("It fails while a listener names the certificate."))
	registerRead(a, operation{"get-key-pair", tag, "The chain and the key of a certificate, for edges"},
		path+"/{id}/key-pair", a.keyPair, permit(roleEdge))
}

func (a *API) createCertificate(_ context.Context, p *CreateCertificateParams) (*certificateAnswer, error) {
	// The chain identifies the request without the key, which no record may depend on.
	request := p.Body
	request.Key = ""
	return post(a, p.PostParams, "create certificate", request, func(tx *store.Tx) (*certificateAnswer, error) {
		c := &cloudv1.Certificate{Object: cloudv1.Object{Name: p.Body.Name, Tags: p.Body.Tags}}
		if err := p.checkTags(store.Certificates.Name, &c.Object); err != nil {
			return nil, err
		}
		if err := nameFree(tx, store.Certificates, c.Name); err != nil {
			return nil, err
		}
		if err := a.describeCertificate(c, p.Body); err != nil {
			return nil, err
		}
		answer, err := create(tx, p.DryRun, "cert-", store.Certificates, c)
		if err != nil || p.DryRun {
			return answer, err
		}
		return answer, a.keepKeyPair(tx, c.ID, p.Body)
	})
}

func (a *API) updateCertificate(_ context.Context, p *UpdateCertificateParams) (*certificateAnswer, error) {
	return change(a, p.WriteParams, func(tx *store.Tx) (*certificateAnswer, error) {
		c, err := store.Certificates.Get(tx, p.ID)
		if err != nil {
			return nil, err
		}
		if err := p.check(store.Certificates.Name, &c.Object); err != nil {
			return nil, err
		}
		if p.Body.Name != c.Name {
			if err := nameFree(tx, store.Certificates, p.Body.Name); err != nil {
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
		return done(http.StatusOK, store.Certificates, c), a.keepKeyPair(tx, c.ID, p.Body)
	})
}

// describeCertificate sets what is derived from the chain, if chain and key are valid.
func (a *API) describeCertificate(c *cloudv1.Certificate, s cloudv1.CertificateSpec) error {
	parsed, problems := certificate.Parse(s.Chain, s.Key, a.Clock.Now())
	if len(problems) > 0 {
		return failure.Invalid(problems)
	}
	c.NotAfter, c.DNSNames = parsed.NotAfter, parsed.DNSNames
	c.Fingerprint, c.ChainFingerprint = parsed.Fingerprint, parsed.ChainFingerprint
	return nil
}

func (a *API) keepKeyPair(tx *store.Tx, id string, s cloudv1.CertificateSpec) error {
	sealed, err := a.Cipher.Seal(id, cloudv1.KeyPair{Chain: s.Chain, Key: s.Key})
	if err != nil {
		return err
	}
	return store.KeyPairs.Set(tx, id, sealed)
}

func (a *API) deleteCertificate(_ context.Context, p *DeleteParams) (*certificateAnswer, error) {
	return change(a, p.WriteParams, func(tx *store.Tx) (*certificateAnswer, error) {
		c, err := store.Certificates.Get(tx, p.ID)
		if err != nil {
			return nil, err
		}
		if err := p.check(store.Certificates.Name, &c.Object); err != nil {
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
		return done(http.StatusOK, store.Certificates, c), nil
	})
}

// SecretAnswer is a response that must not be kept by anything on its way.
type SecretAnswer[T any] struct {
	CacheControl string `header:"Cache-Control" doc:"no-store: the key must not be kept by caches."`
	Body         T
}

func (a *API) keyPair(_ context.Context, p *KeyPairParams) (*SecretAnswer[cloudv1.KeyPair], error) {
	var sealed string
	err := a.Store.View(func(tx *store.Tx) error {
		if _, err := store.Certificates.Get(tx, p.ID); err != nil {
			return failure.Absent(err)
		}
		sealed = store.KeyPairs.Get(tx, p.ID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	pair, err := a.Cipher.Open(p.ID, sealed)
	if err != nil {
		return nil, err
	}
	return &SecretAnswer[cloudv1.KeyPair]{CacheControl: "no-store", Body: pair}, nil
}
