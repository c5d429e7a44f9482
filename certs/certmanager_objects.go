package certs

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// authorityDuration is the validity of our own authorities.
const authorityDuration = 10 * 365 * 24 * time.Hour

// IssuerRef refers to an issuer of cert-manager.
type IssuerRef = cmmeta.IssuerReference

// Request describes the certificate to request from cert-manager.
type Request struct {
	// Prefix is the name of the serving Certificate and the prefix of the names of the other objects.
	Prefix string
	// Secret is the name of the Secret that cert-manager writes the serving certificate to.
	Secret string
	// Hosts are the DNS names and IP addresses that API servers call.
	Hosts []string
	// Issuer signs the certificate; nil to create our own authority.
	Issuer *IssuerRef
}

// AuthorityName returns the name of our own authority's Certificate, Issuer and Secret. The webhook configurations are
// annotated with that Certificate, so that cert-manager injects the authority; with an issuer of the user, they are
// annotated with the serving Certificate.
func (r Request) AuthorityName() string { return r.Prefix + "-ca" }

// manifest is the desired state of an object of cert-manager.
type manifest struct {
	kind, name string
	spec       any
}

func (w manifest) String() string { return fmt.Sprintf("%s %q", strings.ToLower(w.kind), w.name) }

// objects returns the required objects of cert-manager, each after those that it refers to.
func (r Request) objects() []manifest {
	if r.Issuer != nil {
		return []manifest{{certmanagerv1.CertificateKind, r.Prefix, r.serving(*r.Issuer)}}
	}
	ca, selfSigned := r.AuthorityName(), r.Prefix+"-selfsigned"
	return []manifest{
		{certmanagerv1.IssuerKind, selfSigned, certmanagerv1.IssuerConfig{SelfSigned: &certmanagerv1.SelfSignedIssuer{}}},
		{certmanagerv1.CertificateKind, ca, certmanagerv1.CertificateSpec{
			SecretName: ca,
			// Certificates name it as their issuer, and administrators find it in bundles.
			CommonName: "quaymaster.dev webhook authority",
			IsCA:       true,
			Duration:   &metav1.Duration{Duration: authorityDuration},
			// A renewed authority with the same key verifies what its predecessor signed, so that nothing breaks
			// between its injection into the webhook configurations and the next serving certificate.
			PrivateKey: key(certmanagerv1.RotationPolicyNever),
			Usages:     []certmanagerv1.KeyUsage{certmanagerv1.UsageCertSign},
			IssuerRef:  issuerRef(selfSigned),
		}},
		{certmanagerv1.IssuerKind, ca, certmanagerv1.IssuerConfig{CA: &certmanagerv1.CAIssuer{SecretName: ca}}},
		{certmanagerv1.CertificateKind, r.Prefix, r.serving(issuerRef(ca))},
	}
}

func (r Request) serving(by IssuerRef) certmanagerv1.CertificateSpec {
	spec := certmanagerv1.CertificateSpec{
		SecretName:  r.Secret,
		Duration:    &metav1.Duration{Duration: 90 * 24 * time.Hour},
		RenewBefore: &metav1.Duration{Duration: 30 * 24 * time.Hour},
		PrivateKey:  key(certmanagerv1.RotationPolicyAlways),
		Usages:      []certmanagerv1.KeyUsage{certmanagerv1.UsageDigitalSignature, certmanagerv1.UsageServerAuth},
		IssuerRef:   by,
	}
	for _, host := range r.Hosts {
		if _, err := netip.ParseAddr(host); err == nil {
			spec.IPAddresses = append(spec.IPAddresses, host)
		} else {
			spec.DNSNames = append(spec.DNSNames, host)
		}
	}
	return spec
}

func issuerRef(name string) IssuerRef {
	return IssuerRef{Group: certmanagerv1.SchemeGroupVersion.Group, Kind: certmanagerv1.IssuerKind, Name: name}
}

func key(rotation certmanagerv1.PrivateKeyRotationPolicy) *certmanagerv1.CertificatePrivateKey {
	return &certmanagerv1.CertificatePrivateKey{
		Algorithm: certmanagerv1.ECDSAKeyAlgorithm, Size: 256, RotationPolicy: rotation,
	}
}

// ParseIssuerRef parses kind/name or group/kind/name.
func ParseIssuerRef(text string) (*IssuerRef, error) {
	parts := strings.Split(text, "/")
	if len(parts) == 2 {
		parts = append([]string{certmanagerv1.SchemeGroupVersion.Group}, parts...)
	}
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return nil, fmt.Errorf("must be kind/name or group/kind/name, such as ClusterIssuer/internal; got %q", text)
	}
	return &IssuerRef{Group: parts[0], Kind: parts[1], Name: parts[2]}, nil
}
