package app

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"quaymaster.dev/certs"
)

// The values of --cert-mode.
const (
	certModeCertManager = "cert-manager"
	certModeFiles       = "files"
	certModeSelfSigned  = "self-signed"
)

// shortestValidity leaves time to rotate.
const shortestValidity = 30 * time.Second

// namespaceFile is where pods find the namespace of their ServiceAccount.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// certOptions are the flags about the serving certificate.
type certOptions struct {
	mode              string
	certFile, keyFile string
	namespace, secret string
	hosts             []string
	prefix, issuerRef string
	managed           bool
	validity          time.Duration
}

func (o *certOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.mode, "cert-mode", certModeCertManager, "where the serving certificate comes from: cert-manager, self-signed or files")
	fs.StringVar(&o.certFile, "tls-cert-file", "", "`file` with the serving certificate and its intermediates, for --cert-mode=files")
	fs.StringVar(&o.keyFile, "tls-private-key-file", "", "`file` with the key of the certificate, for --cert-mode=files")
	fs.StringVar(&o.namespace, "namespace", "", "our own `namespace`, where certificates are kept; empty for the pod's")
	fs.StringVar(&o.secret, "cert-secret", "quaymaster-webhook-tls", "`name` of the Secret that cert-manager writes, or that replicas share in --cert-mode=self-signed; empty there keeps everything in memory")
	fs.StringSliceVar(&o.hosts, "cert-hosts", nil, "DNS `names` and IP addresses that API servers call")
	fs.StringVar(&o.prefix, "cert-name-prefix", "quaymaster-webhook", "`name` of the Certificate in --cert-mode=cert-manager; begins the names of our own authority's objects")
	fs.StringVar(&o.issuerRef, "cert-issuer-ref", "", "`issuer` of cert-manager as kind/name or group/kind/name; empty for an authority of our own")
	fs.BoolVar(&o.managed, "cert-manager-managed", true, "apply the objects of cert-manager; false only watches the Secret")
	fs.DurationVar(&o.validity, "self-signed-validity", 30*24*time.Hour, "how long a self-signed certificate lasts, its authority ten times longer; both are replaced after two thirds")
}

// validate finds every mistake in the flags, and completes the namespace.
func (o *certOptions) validate() []error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch o.mode {
	case certModeFiles:
		if o.certFile == "" {
			add("--tls-cert-file must name a file, or --cert-mode must be another")
		}
		if o.keyFile == "" {
			add("--tls-private-key-file must name a file, or --cert-mode must be another")
		}
		return errs
	case certModeSelfSigned:
		errs = append(errs, o.validateHosts()...)
		if o.validity < shortestValidity {
			add("--self-signed-validity must be at least %s; got %s", shortestValidity, o.validity)
		}
		if o.secret == "" {
			return errs
		}
	case certModeCertManager:
		errs = append(errs, o.validateRequest()...)
	default:
		add("--cert-mode must be %s, %s or %s; got %q", certModeCertManager, certModeSelfSigned, certModeFiles, o.mode)
		return errs
	}
	if len(validation.IsDNS1123Subdomain(o.secret)) > 0 {
		add("--cert-secret must be the name of a Secret; got %q", o.secret)
	}
	return append(errs, o.completeNamespace()...)
}

func (o *certOptions) validateHosts() []error {
	if len(o.hosts) == 0 {
		return []error{errors.New("--cert-hosts must name a host that API servers call, such as quaymaster-webhook.quaymaster-system.svc")}
	}
	var errs []error
	for _, host := range o.hosts {
		if _, err := netip.ParseAddr(host); err != nil && len(validation.IsDNS1123Subdomain(host)) > 0 {
			errs = append(errs, fmt.Errorf("--cert-hosts must be DNS names and IP addresses; got %q", host))
		}
	}
	return errs
}

// validateRequest is about what cert-manager is asked for.
func (o *certOptions) validateRequest() []error {
	if !o.managed {
		return nil
	}
	errs := o.validateHosts()
	if problems := validation.IsDNS1123Subdomain(o.prefix); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--cert-name-prefix must be the name of an object; got %q", o.prefix))
	}
	request, err := o.request()
	if err != nil {
		errs = append(errs, err)
	} else if request.Issuer == nil && o.secret == request.AuthorityName() {
		errs = append(errs, fmt.Errorf("--cert-secret must not be %s, which is the authority's", o.secret))
	}
	return errs
}

func (o *certOptions) completeNamespace() []error {
	if o.namespace == "" {
		found, err := os.ReadFile(namespaceFile)
		if err != nil {
			return []error{errors.New("--namespace must name the namespace of --cert-secret, outside a cluster")}
		}
		o.namespace = strings.TrimSpace(string(found))
	}
	if len(validation.IsDNS1123Label(o.namespace)) > 0 {
		return []error{fmt.Errorf("--namespace must be the name of a namespace; got %q", o.namespace)}
	}
	return nil
}

func (o *certOptions) request() (certs.Request, error) {
	request := certs.Request{Prefix: o.prefix, Secret: o.secret, Hosts: o.hosts}
	if o.issuerRef == "" {
		return request, nil
	}
	var err error
	if request.Issuer, err = certs.ParseIssuerRef(o.issuerRef); err != nil {
		return request, fmt.Errorf("--cert-issuer-ref %w", err)
	}
	return request, nil
}

// source has the certificates of the mode.
func (o *certOptions) source(cfg *rest.Config, api kubernetes.Interface, configurations certs.Configurations) (certs.Source, error) {
	if o.mode == certModeFiles {
		files, err := certs.NewFiles(o.certFile, o.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w; write a certificate and its key there, or choose --cert-mode=self-signed", err)
		}
		return files, nil
	}
	secrets := api.CoreV1().Secrets(o.namespace)
	if o.mode == certModeSelfSigned {
		return certs.NewSelfSigned(certs.SelfSignedOptions{
			Hosts: o.hosts, Validity: o.validity, API: api.AdmissionregistrationV1(), Configurations: configurations,
			Secrets: secrets, Secret: o.secret, Clock: clock.RealClock{},
		})
	}
	request, err := o.request()
	if err != nil {
		return nil, err
	}
	options := certs.CertManagerOptions{Request: request, Secrets: secrets, Clock: clock.RealClock{}}
	if o.managed {
		if options.Client, err = certs.NewCertManagerClient(cfg, o.namespace); err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
	}
	return certs.NewCertManager(options), nil
}

// withCertificate is a check that needs a certificate to serve. Without one every try would leave a line in the log.
func withCertificate(source certs.Source, check healthz.Checker) healthz.Checker {
	return func(r *http.Request) error {
		if _, err := source.GetCertificate(nil); err != nil {
			return err
		}
		return check(r)
	}
}
