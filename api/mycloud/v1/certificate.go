package v1

import "time"

// Certificate is a certificate for https listeners. Its chain and key cannot be read back, except by edges.
type Certificate struct {
	Object
	// When the certificate expires.
	NotAfter time.Time `json:"not_after" readOnly:"true"`
	// The names that the certificate is valid for.
	DNSNames []string `json:"dns_names" readOnly:"true" nullable:"false"`
	// SHA-256 of the certificate in hexadecimal.
	Fingerprint string `json:"fingerprint" readOnly:"true"`
	// SHA-256 of the certificate and its intermediate certificates in hexadecimal. With it, a replacement of
	// intermediate certificates alone is a change of the object.
	ChainFingerprint string `json:"chain_fingerprint" readOnly:"true"`
}

// CertificateSpec is the body of a request to create or replace a certificate.
type CertificateSpec struct {
	// Unique among certificates.
	Name string `json:"name" minLength:"1" maxLength:"255"`
	// Tags of the certificate; a replacement without them removes all.
	Tags map[string]string `json:"tags,omitempty"`
	// The certificate and then its intermediate certificates in PEM.
	Chain string `json:"chain" writeOnly:"true" minLength:"1" maxLength:"65536"`
	// The private key of the certificate in PEM, not encrypted.
	Key string `json:"key" writeOnly:"true" minLength:"1" maxLength:"16384"`
}

// KeyPair is a certificate as edges read it.
type KeyPair struct {
	// The certificate and then its intermediate certificates in PEM.
	Chain string `json:"chain"`
	// The private key of the certificate in PEM, not encrypted.
	Key string `json:"key"`
}
