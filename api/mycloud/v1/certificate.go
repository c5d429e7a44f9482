package v1

import "time"

// Certificate is a certificate for https listeners. Its chain and key cannot be read back, except by edges.
type Certificate struct {
	Object
	NotAfter    time.Time `json:"not_after" readOnly:"true"`
	DNSNames    []string  `json:"dns_names" readOnly:"true" nullable:"false"`
	Fingerprint string    `json:"fingerprint" readOnly:"true" doc:"SHA-256 of the certificate in hexadecimal."`
}

// CertificateSpec is the body of a request to create or replace a certificate.
type CertificateSpec struct {
	Name  string            `json:"name" minLength:"1" maxLength:"255" doc:"Unique among certificates."`
	Tags  map[string]string `json:"tags,omitempty"`
	Chain string            `json:"chain" writeOnly:"true" doc:"The certificate and its intermediate certificates in PEM."`
	Key   string            `json:"key" writeOnly:"true" doc:"The private key in PEM."`
}

// KeyPair is a certificate as edges read it.
type KeyPair struct {
	Chain string `json:"chain"`
	Key   string `json:"key"`
}
