package app

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"quaymaster.dev/certs"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/observability"
)

// The values of --cert-mode.
const (
	certModeFiles      = "files"
	certModeSelfSigned = "self-signed"
)

// off as an address means that nothing listens.
const off = "0"

// shortestValidity leaves time to rotate.
const shortestValidity = 30 * time.Second

// webhookOptions are the flags of quaymaster webhook.
type webhookOptions struct {
	kubeconfig        string
	bindAddress       string
	securePort        int
	healthAddress     string
	metricsAddress    string
	http2             bool
	maxRequests       int
	loadBalancerClass string
	cloudConfig       string
	certMode          string
	certFile, keyFile string
	selfSignedHosts   []string
	validity          time.Duration
	configurations    certs.Configurations
	logFormat         string
	verbosity         int
}

func (o *webhookOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server; empty inside a cluster")
	fs.StringVar(&o.bindAddress, "bind-address", "", "IP `address` to serve the webhooks on; empty for all")
	fs.IntVar(&o.securePort, "secure-port", 9443, "`port` to serve the webhooks on")
	fs.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 for none")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", off, "`address` of /metrics; 0 for none")
	fs.BoolVar(&o.http2, "enable-http2", false, "offer HTTP/2 to API servers")
	fs.IntVar(&o.maxRequests, "max-concurrent-requests", 100, "admission calls handled at the same time; more are answered with 429")
	fs.StringVar(&o.loadBalancerClass, "load-balancer-class", config.DefaultLoadBalancerClass, "`class` of Services that are ours besides those without one")
	fs.StringVar(&o.cloudConfig, "cloud-config", "", "`file` with the cloud config, for questions about volumes; empty asks no cloud")
	fs.StringVar(&o.certMode, "cert-mode", certModeFiles, "where the serving certificate comes from: files or self-signed")
	fs.StringVar(&o.certFile, "tls-cert-file", "", "`file` with the serving certificate and its intermediates, for --cert-mode=files")
	fs.StringVar(&o.keyFile, "tls-private-key-file", "", "`file` with the key of the certificate, for --cert-mode=files")
	fs.StringSliceVar(&o.selfSignedHosts, "self-signed-hosts", []string{"localhost", "127.0.0.1"}, "DNS `names` and IP addresses of the certificate, for --cert-mode=self-signed")
	fs.DurationVar(&o.validity, "self-signed-validity", 30*24*time.Hour, "how long a self-signed certificate lasts; it is replaced after two thirds")
	fs.StringVar(&o.configurations.Mutating, "mutating-webhook-configuration", "quaymaster", "`name` of the configuration that calls /mutate-service; empty for none")
	fs.StringVar(&o.configurations.Validating, "validating-webhook-configuration", "quaymaster", "`name` of the configuration that calls /validate-service; empty for none")
	fs.StringVar(&o.logFormat, "log-format", observability.FormatText, "text or json")
	fs.IntVarP(&o.verbosity, "v", "v", 0, "verbosity of the log; 2 shows every admitted object")
}

// validate finds every mistake in the flags.
func (o *webhookOptions) validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.bindAddress != "" && net.ParseIP(o.bindAddress) == nil {
		add("--bind-address must be an IP address; got %q", o.bindAddress)
	}
	if o.securePort < 1 || o.securePort > 65535 {
		add("--secure-port must be between 1 and 65535; got %d", o.securePort)
	}
	for _, listener := range []struct{ flag, address string }{
		{"--health-probe-bind-address", o.healthAddress}, {"--metrics-bind-address", o.metricsAddress},
	} {
		if listener.address != off && !isListenAddress(listener.address) {
			add("%s must be 0 or an address with port such as :8081; got %q", listener.flag, listener.address)
		}
	}
	if o.maxRequests < 1 {
		add("--max-concurrent-requests must be at least 1; got %d", o.maxRequests)
	}
	if problems := validation.IsQualifiedName(o.loadBalancerClass); len(problems) > 0 {
		add("--load-balancer-class must be a name such as %s; got %q", config.DefaultLoadBalancerClass, o.loadBalancerClass)
	}
	errs = append(errs, o.validateCertificate()...)
	if o.logFormat != observability.FormatText && o.logFormat != observability.FormatJSON {
		add("--log-format must be text or json; got %q", o.logFormat)
	}
	if o.verbosity < 0 {
		add("-v must not be negative; got %d", o.verbosity)
	}
	if len(errs) == 0 {
		return nil
	}
	var lines []string
	for _, err := range errs {
		lines = append(lines, err.Error())
	}
	return command.Usage(errors.New(strings.Join(lines, "; ")))
}

func (o *webhookOptions) validateCertificate() []error {
	var errs []error
	switch o.certMode {
	case certModeFiles:
		if o.certFile == "" {
			errs = append(errs, errors.New("--tls-cert-file must name a file, or --cert-mode must be self-signed"))
		}
		if o.keyFile == "" {
			errs = append(errs, errors.New("--tls-private-key-file must name a file, or --cert-mode must be self-signed"))
		}
	case certModeSelfSigned:
		if len(o.selfSignedHosts) == 0 {
			errs = append(errs, errors.New("--self-signed-hosts must name a host that API servers call"))
		}
		for _, host := range o.selfSignedHosts {
			if _, err := netip.ParseAddr(host); err != nil && len(validation.IsDNS1123Subdomain(host)) > 0 {
				errs = append(errs, fmt.Errorf("--self-signed-hosts must be DNS names and IP addresses; got %q", host))
			}
		}
		if o.validity < shortestValidity {
			errs = append(errs, fmt.Errorf("--self-signed-validity must be at least %s; got %s", shortestValidity, o.validity))
		}
	default:
		errs = append(errs, fmt.Errorf("--cert-mode must be %s or %s; got %q", certModeFiles, certModeSelfSigned, o.certMode))
	}
	return errs
}

func isListenAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n > 0 && n < 65536
}
