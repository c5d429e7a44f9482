package app

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"quaymaster.dev/certs"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/observability"
	"quaymaster.dev/internal/review"
)

// off, as an address, disables the listener.
const off = "0"

// longestRequestTimeout is the longest timeout in a webhook configuration.
const longestRequestTimeout = 30 * time.Second

// webhookOptions holds the flags of quaymaster webhook.
type webhookOptions struct {
	kubeconfig        string
	bindAddress       string
	securePort        int
	healthAddress     string
	metricsAddress    string
	metricsSecure     bool
	profiling         bool
	http2             bool
	requestTimeout    time.Duration
	maxRequests       int
	maxConnections    int
	clientCAFile      string
	clientNames       []string
	shutdownDelay     time.Duration
	loadBalancerClass string
	defaultClass      bool
	catalogs          []string
	unknownKeys       []string
	cloudController   bool
	reviewer          review.Reviewer
	cloudConfig       string
	certs             certOptions
	configurations    certs.Configurations
	log               observability.LogOptions
}

func (o *webhookOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`; leave empty inside a cluster")
	fs.StringVar(&o.bindAddress, "bind-address", "", "IP `address` to serve the webhooks on; empty for all interfaces")
	fs.IntVar(&o.securePort, "secure-port", 9443, "`port` to serve the webhooks on")
	fs.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081",
		"`address` to serve /healthz and /readyz on; 0 disables it")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", off, "`address` to serve /metrics on; 0 disables it")
	fs.BoolVar(&o.metricsSecure, "metrics-secure", false,
		"serve metrics with the serving certificate, and only to clients that the API server authenticates by their "+
			"token and allows to get the path /metrics")
	fs.BoolVar(&o.profiling, "profiling", false,
		"serve profiles at /debug/pprof/ of --metrics-bind-address, which must then be a loopback address")
	fs.BoolVar(&o.http2, "enable-http2", false, "offer HTTP/2 to API servers")
	fs.DurationVar(&o.requestTimeout, "request-timeout", 3*time.Second,
		"timeoutSeconds of the webhook configurations: no request may take longer, whatever its caller asks for")
	fs.IntVar(&o.maxRequests, "max-concurrent-requests", 1000,
		"maximum number of admission requests that are handled or wait for their turn, half of them for one IP address; "+
			"further requests are answered with 503")
	fs.IntVar(&o.maxConnections, "max-connections", 500,
		"maximum number of open connections; for each further one, the connection that has waited longest is closed, "+
			"preferably of the IP address with the most connections")
	fs.StringVar(&o.clientCAFile, "client-ca-file", "",
		"`file` with the CAs of client certificates, which API servers must then present; it is read again when it changes")
	fs.StringSliceVar(&o.clientNames, "client-allowed-names", nil,
		"common `names` or DNS names of client certificates to allow; if empty, every certificate of the CAs is allowed")
	fs.DurationVar(&o.shutdownDelay, "shutdown-delay", 0,
		"how long to continue serving, while not ready, after a termination signal")
	fs.StringVar(&o.loadBalancerClass, "load-balancer-class", config.DefaultLoadBalancerClass,
		"loadBalancerClass of Services to handle")
	fs.BoolVar(&o.defaultClass, "default-class", true, "handle Services without a class")
	fs.StringSliceVar(&o.catalogs, "catalogs", []string{loadbalancer.Catalog},
		"`names` of the catalogs to validate annotations with: "+strings.Join(catalog.Names(), ", "))
	fs.StringSliceVar(&o.unknownKeys, "unknown-keys", []string{actionWarn},
		"`action` for annotations under another cloud's prefix that its catalog does not contain: deny, warn or "+
			"ignore, for all catalogs or for one as in hcloud=deny")
	fs.BoolVar(&o.cloudController, "cloud-controller", true,
		"Quaymaster's cloud-controller-manager also runs in the cluster: it applies missing defaults of the DLB, adds "+
			"missing zones, and checks Services again; if false, admission relies on none of that")
	fs.StringVar(&o.cloudConfig, "cloud-config", "",
		"cloud config `file`, needed to look up volumes; if empty, the cloud is not used")
	o.certs.addFlags(fs)
	fs.StringVar(&o.configurations.Mutating, "mutating-webhook-configuration", "quaymaster",
		"`name` of the MutatingWebhookConfiguration that calls /mutate-service; empty for none")
	fs.StringVar(&o.configurations.Validating, "validating-webhook-configuration", "quaymaster",
		"`name` of the ValidatingWebhookConfiguration that calls /validate-service; empty for none")
	o.log.AddFlags(fs)
}

// validate returns every problem in the flags as one error.
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
			add("%s must be 0 or an address with a port, such as :8081; got %q", listener.flag, listener.address)
		}
	}
	if o.profiling && !isLoopback(o.metricsAddress) {
		add("--profiling requires a loopback address in --metrics-bind-address, such as 127.0.0.1:8080; got %q",
			o.metricsAddress)
	}
	if o.maxRequests < 1 {
		add("--max-concurrent-requests must be at least 1; got %d", o.maxRequests)
	}
	if o.maxConnections < 1 {
		add("--max-connections must be at least 1; got %d", o.maxConnections)
	}
	if o.requestTimeout < time.Second || o.requestTimeout > longestRequestTimeout {
		add("--request-timeout must be between 1s and %s; got %s", longestRequestTimeout, o.requestTimeout)
	}
	if len(o.clientNames) > 0 && o.clientCAFile == "" {
		add("--client-allowed-names requires --client-ca-file")
	}
	if o.shutdownDelay < 0 {
		add("--shutdown-delay must not be negative; got %s", o.shutdownDelay)
	}
	if problems := validation.IsQualifiedName(o.loadBalancerClass); len(problems) > 0 {
		add("--load-balancer-class must be a qualified name such as %s; got %q", config.DefaultLoadBalancerClass,
			o.loadBalancerClass)
	}
	errs = append(errs, o.selectCatalogs()...)
	errs = append(errs, o.certs.validate()...)
	errs = append(errs, o.log.Validate()...)
	if len(errs) == 0 {
		return nil
	}
	return command.Usage(command.JoinLine(errs))
}

func isListenAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n > 0 && n < 65536
}

// actionWarn is the default: a newer release of a cloud's controller may support the key, which must not cause an
// outage.
const actionWarn = "warn"

// actions maps the values of --unknown-keys to severities.
var actions = map[string]finding.Severity{"deny": finding.Error, actionWarn: finding.Warning, "ignore": finding.Audit}

// selectCatalogs sets up the engine from --catalogs and --unknown-keys.
func (o *webhookOptions) selectCatalogs() []error {
	var errs []error
	unknown := map[string]finding.Severity{"": actions[actionWarn]}
	for _, entry := range o.unknownKeys {
		name, action, ofOne := strings.Cut(entry, "=")
		if !ofOne {
			name, action = "", entry
		}
		severity, known := actions[action]
		if !known {
			errs = append(errs, fmt.Errorf("--unknown-keys must be deny, warn or ignore; got %q", entry))
		}
		if ofOne && !slices.Contains(o.catalogs, name) {
			errs = append(errs, fmt.Errorf("--unknown-keys must name catalogs that are also in --catalogs; got %q",
				entry))
		}
		if ofOne && ownCatalog(name) {
			errs = append(errs, fmt.Errorf("--unknown-keys must not be set for %s, which always denies unknown keys; "+
				"got %q", name, entry))
		}
		unknown[name] = severity
	}
	reviewer, err := review.New(catalog.Options{
		Catalogs: o.catalogs, Class: o.loadBalancerClass, ClassOnly: !o.defaultClass, UnknownKeys: unknown,
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("--catalogs: %w", err))
	}
	if !o.cloudController {
		reviewer = reviewer.WithoutControllers()
	}
	o.reviewer = reviewer
	return errs
}

// ownCatalog reports whether the catalog is that of Quaymaster's own controller.
func ownCatalog(name string) bool {
	c, found := catalog.Find(name)
	return found && c.Own
}
