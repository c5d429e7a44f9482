// Package certificate validates certificates with their keys and encrypts them.
package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// maxChain limits the number of certificates in a chain.
const maxChain = 10

// Parsed is what a chain says.
type Parsed struct {
	NotAfter time.Time
	DNSNames []string
	// Fingerprint and ChainFingerprint are the SHA-256 of the certificate and of the whole chain in hexadecimal.
	Fingerprint, ChainFingerprint string
}

// Parse validates a chain and its key in PEM. No problem quotes the key.
func Parse(chain, key string, now time.Time) (Parsed, []cloudv1.ProblemField) {
	var problems []cloudv1.ProblemField
	add := func(pointer, format string, args ...any) {
		problems = append(problems, cloudv1.ProblemField{
			Pointer: pointer, Code: cloudv1.CodeInvalid, Detail: fmt.Sprintf(format, args...),
		})
	}
	certificates, err := parseChain(chain)
	if err != nil {
		add("/chain", "%s", err)
	}
	private, err := privateKey(key)
	if err != nil {
		add("/key", "%s", err)
	}
	if len(problems) > 0 {
		return Parsed{}, problems
	}
	leaf := certificates[0]
	if fits, other := ownerOf(private, certificates); other > 0 {
		add("/chain", "must begin with the certificate of the key, which is number %d", other+1)
	} else if !fits {
		add("/key", "must be the key of the first certificate of the chain")
	}
	if !now.Before(leaf.NotAfter) {
		add("/chain", "must not have expired; the certificate was valid until %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	for i := range certificates[1:] {
		if err := certificates[i].CheckSignatureFrom(certificates[i+1]); err != nil {
			add("/chain", "must have each certificate followed by its issuer; number %d did not sign number %d", i+2, i+1)
		}
	}
	return describe(leaf, certificates), problems
}

func describe(leaf *x509.Certificate, certificates []*x509.Certificate) Parsed {
	first, all := sha256.Sum256(leaf.Raw), sha256.New()
	for _, c := range certificates {
		all.Write(c.Raw)
	}
	return Parsed{
		NotAfter: leaf.NotAfter.UTC(), DNSNames: append([]string{}, leaf.DNSNames...),
		Fingerprint: hex.EncodeToString(first[:]), ChainFingerprint: hex.EncodeToString(all.Sum(nil)),
	}
}

func parseChain(chain string) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for rest := []byte(chain); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if len(certificates) == 0 || strings.TrimSpace(string(rest)) != "" {
				return nil, fmt.Errorf("must consist of certificates in PEM")
			}
			return certificates, nil
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("must consist of certificates in PEM, but has a block of type %q", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d is malformed: %w", len(certificates)+1, err)
		}
		if certificates = append(certificates, c); len(certificates) > maxChain {
			return nil, fmt.Errorf("must have at most %d certificates", maxChain)
		}
	}
}

// privateKey returns the block of the key, which only ownerOf interprets.
func privateKey(key string) (string, error) {
	block, rest := pem.Decode([]byte(key))
	// Files of elliptic curve keys often begin with the parameters of the curve.
	for block != nil && block.Type == "EC PARAMETERS" {
		block, rest = pem.Decode(rest)
	}
	switch {
	case block == nil || !strings.HasSuffix(block.Type, "PRIVATE KEY") || strings.TrimSpace(string(rest)) != "":
		return "", fmt.Errorf("must be one private key in PEM")
	case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
		return "", fmt.Errorf("must not be encrypted with a passphrase")
	}
	return key, nil
}

// ownerOf reports whether the key is that of the first certificate or, if not, which other one it is of; 0 if none.
func ownerOf(key string, certificates []*x509.Certificate) (first bool, other int) {
	for i, c := range certificates {
		alone := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
		if _, err := tls.X509KeyPair(alone, []byte(key)); err == nil {
			return i == 0, i
		}
	}
	return false, 0
}
