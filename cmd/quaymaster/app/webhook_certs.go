package app

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"quaymaster.dev/certs"
)

// The values of --cert-mode.
const (
	certModeCertManager = "cert-manager"
	certModeFiles       = "files"
	certModeSelfSigned  = "self-signed"
)

// shortestValidity leaves enough time for renewal.
const shortestValidity = 30 * time.Second

// namespaceFile contains the namespace of the pod's ServiceAccount.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// certOptions holds the flags of the serving certificate.
type certOptions struct {
	mode              string
	certFile, keyFile string
	namespace, secret string
	hosts             []string
	validity          time.Duration
	// objects are those of cert-manager, as JSON until validate has decoded them.
	objects []string
	decoded []*unstructured.Unstructured
}

func (o *certOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.mode, "cert-mode", certModeCertManager,
		"source of the serving certificate: cert-manager, self-signed or files")
	fs.StringVar(&o.certFile, "tls-cert-file", "",
		"`file` with the serving certificate and its intermediates, for --cert-mode=files")
	fs.StringVar(&o.keyFile, "tls-private-key-file", "",
		"`file` with the private key of the certificate, for --cert-mode=files")
	fs.StringVar(&o.namespace, "namespace", "",
		"`namespace` of the certificate objects; empty for the namespace of the pod")
	fs.StringVar(&o.secret, "cert-secret", "quaymaster-webhook-tls",
		"`name` of the Secret that cert-manager writes or, with --cert-mode=self-signed, in which replicas share their CA; "+
			"empty with self-signed keeps the CA of a single replica in memory")
	fs.StringSliceVar(&o.hosts, "cert-hosts", nil,
		"DNS `names` and IP addresses at which API servers call the webhooks, for --cert-mode=self-signed")
	fs.StringArrayVar(&o.objects, "cert-manager-object", nil,
		"Issuer or Certificate as `JSON` to create and update with --cert-mode=cert-manager, after those that it refers to; "+
			"may be repeated; if there is none, only the Secret is watched")
	fs.DurationVar(&o.validity, "self-signed-validity", 30*24*time.Hour,
		"validity of a self-signed certificate, which is renewed after two thirds of it; its CA is valid for ten years")
}

// validate returns every problem in the flags and fills in the namespace.
func (o *certOptions) validate() []error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch o.mode {
	case certModeFiles:
		if o.certFile == "" {
			add("--tls-cert-file is required with --cert-mode=files")
		}
		if o.keyFile == "" {
			add("--tls-private-key-file is required with --cert-mode=files")
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
	default:
		add("--cert-mode must be %s, %s or %s; got %q", certModeCertManager, certModeSelfSigned, certModeFiles, o.mode)
		return errs
	}
	if len(validation.IsDNS1123Subdomain(o.secret)) > 0 {
		add("--cert-secret must be a valid Secret name; got %q", o.secret)
	}
	errs = append(errs, o.completeNamespace()...)
	if o.mode != certModeCertManager || len(errs) > 0 {
		return errs
	}
	for _, text := range o.objects {
		object, err := certs.ParseObject(text, o.namespace)
		if err != nil {
			add("--cert-manager-object %w", err)
		}
		o.decoded = append(o.decoded, object)
	}
	return errs
}

func (o *certOptions) validateHosts() []error {
	if len(o.hosts) == 0 {
		return []error{errors.New("--cert-hosts is required: name the hosts that API servers call, such as " +
			"quaymaster-webhook.quaymaster-system.svc")}
	}
	var errs []error
	for _, host := range o.hosts {
		if _, err := netip.ParseAddr(host); err != nil && len(validation.IsDNS1123Subdomain(host)) > 0 {
			errs = append(errs, fmt.Errorf("--cert-hosts must contain DNS names or IP addresses; got %q", host))
		}
	}
	return errs
}

func (o *certOptions) completeNamespace() []error {
	if o.namespace == "" {
		found, err := os.ReadFile(namespaceFile)
		if err != nil {
			return []error{errors.New("--namespace is required outside a cluster: name the namespace of --cert-secret")}
		}
		o.namespace = strings.TrimSpace(string(found))
	}
	if len(validation.IsDNS1123Label(o.namespace)) > 0 {
		return []error{fmt.Errorf("--namespace must be a valid namespace name; got %q", o.namespace)}
	}
	return nil
}

// source returns the source of certificates for the mode.
func (o *certOptions) source(api dynamic.Interface, configurations certs.Configurations) (certs.Source, error) {
	switch o.mode {
	case certModeFiles:
		// While the files do not match, as between writing one and the other, the last valid pair stays in use.
		files, err := certwatcher.New(o.certFile, o.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert-file=%s, --tls-private-key-file=%s: %w; provide a certificate and its key "+
				"there, or use --cert-mode=self-signed", o.certFile, o.keyFile, err)
		}
		return files, nil
	case certModeSelfSigned:
		return certs.NewSelfSigned(certs.SelfSignedOptions{
			Hosts: o.hosts, Validity: o.validity, API: api, Configurations: configurations,
			Namespace: o.namespace, Secret: o.secret, Clock: clock.RealClock{},
		}), nil
	}
	return certs.NewCertManager(certs.CertManagerOptions{
		Objects: o.decoded, Secret: o.secret, API: api, Namespace: o.namespace, Clock: clock.RealClock{},
	}), nil
}

// webhookEvents returns a recorder of Events that works until the context ends. Events of webhook configurations, which
// have no namespace, are in the namespace default.
func webhookEvents(ctx context.Context, api kubernetes.Interface) record.EventRecorder {
	events := record.NewBroadcaster(record.WithContext(ctx))
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: api.CoreV1().Events(metav1.NamespaceAll)})
	return events.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: webhookUserAgent})
}
