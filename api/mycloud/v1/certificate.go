package v1

import "time"

// Certificate is a certificate for https listeners. Its chain and key cannot be read back, except by edges.
type Certificate struct {
	Object
	NotAfter    time.Time `json:"not_after" readOnly:"true"`
	DNSNames    []string  `json:"dns_names" readOnly:"true" nullable:"false"`
	Fingerprint string    `json:"fingerprint" readOnly:"true" doc:"SHA-256 of the certificate in hexadecimal."`
	// ChainFingerprint makes a replacement of intermediate certificates alone a change of the object.
	ChainFingerprint string `json:"chain_fingerprint" readOnly:"true" doc:"SHA-256 of the certificate and its intermediate certificates in hexadecimal."`
}

// CertificateSpec is the body of a request to create or replace a certificate.
type CertificateSpec struct {
	Name  string            `json:"name" minLength:"1" maxLength:"255" doc:"Unique among certificates."`
	Tags  map[string]string `json:"tags,omitempty"`
	Chain string            `json:"chain" writeOnly:"true" minLength:"1" maxLength:"65536" doc:"The certificate and then its intermediate certificates in PEM."`
	Key   string            `json:"key" writeOnly:"true" minLength:"1" maxLength:"16384" doc:"The private key of the certificate in PEM, not encrypted."`
}

// KeyPair is a certificate as edges read it.
type KeyPair struct {
	Chain string `json:"chain"`
	Key   string `json:"key"`
}
