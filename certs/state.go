package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// state holds the certificates that the replicas share.
type state struct {
	// authority signs new certificates.
	authority *authority
	// former are the previous authorities; one of them may have signed the served certificate.
	former []*x509.Certificate
	// serving is nil if there is no usable certificate.
	serving *tls.Certificate
}

// authorities returns all authorities that API servers should trust.
func (s *state) authorities() []*x509.Certificate {
	return append([]*x509.Certificate{s.authority.cert}, s.former...)
}

// signer returns the authority that signed the served certificate; nil if it is unknown.
func (s *state) signer() *x509.Certificate {
	for _, cert := range s.authorities() {
		if s.serving != nil && s.serving.Leaf.CheckSignatureFrom(cert) == nil {
			return cert
		}
	}
	return nil
}

// encode returns the data of a Secret with the state.
func (s *state) encode() (map[string][]byte, error) {
	authorityKeyPEM, err := encodeKey(s.authority.key)
	if err != nil {
		return nil, err
	}
	servingKeyPEM, err := encodeKey(s.serving.PrivateKey)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		authorityKey:            encodeBundle(s.authorities()),
		authorityPrivateKey:     authorityKeyPEM,
		corev1.TLSCertKey:       encodeBundle([]*x509.Certificate{s.serving.Leaf}),
		corev1.TLSPrivateKeyKey: servingKeyPEM,
	}, nil
}

// parseState parses the data of a Secret from encode. An unusable serving certificate is ignored, because the authority
// issues another.
func parseState(data map[string][]byte, now time.Time) (*state, error) {
	pair, err := keyPair(data, authorityKey, authorityPrivateKey)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s is not an ECDSA key", authorityPrivateKey)
	case !pair.Leaf.IsCA:
		return nil, fmt.Errorf("the first certificate of %s is not an authority", authorityKey)
	case now.After(pair.Leaf.NotAfter):
		expiry := pair.Leaf.NotAfter.Format(time.RFC3339)
		return nil, fmt.Errorf("the first authority of %s expired at %s", authorityKey, expiry)
	}
	s := &state{authority: &authority{cert: pair.Leaf, key: key}}
	for _, cert := range parseBundle(data[authorityKey]) {
		if !cert.Equal(pair.Leaf) && cert.IsCA {
			s.former = append(s.former, cert)
		}
	}
	if serving, err := parsePair(data, now); err == nil {
		s.serving = serving
	}
	return s, nil
}

func encodeKey(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.New("encode private key: unsupported type") // the cause might quote the key
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der}), nil
}

func encodeBundle(certs []*x509.Certificate) []byte {
	var bundle bytes.Buffer
	for _, cert := range certs {
		// Writing to a buffer does not fail.
		_ = pem.Encode(&bundle, &pem.Block{Type: pemCertificate, Bytes: cert.Raw})
	}
	return bundle.Bytes()
}
