package app

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"quaymaster.dev/certs"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/catalogfile"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/observability"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/internal/rules/template"
	"quaymaster.dev/internal/selection"
	"quaymaster.dev/internal/tool/manifest"
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
	catalogs          selection.Flags
	serviceTemplates  []string
	templates         []template.Template
	cloudController   bool
	reviewer          review.Reviewer
	// sources are the contents of --catalog-file.
	sources        []catalogfile.Source
	cloudConfig    string
	certs          certOptions
	configurations certs.Configurations
	log            observability.LogOptions
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
		"maximum number of admission requests that are handled at a time; further ones wait, and are answered with 503 if "+
			"there is no time")
	fs.IntVar(&o.maxConnections, "max-connections", 500,
		"maximum number of open connections; for each further one, the oldest connection without a request is closed, else "+
			"the one that has waited longest")
	fs.StringVar(&o.clientCAFile, "client-ca-file", "",
		"`file` with the CAs of client certificates, which API servers must then present; it is read again when it changes")
	fs.StringSliceVar(&o.clientNames, "client-allowed-names", nil,
		"common `names` or DNS names of client certificates to allow; if empty, every certificate of the CAs is allowed")
	fs.DurationVar(&o.shutdownDelay, "shutdown-delay", 0,
		"how long to continue serving, while not ready, after a termination signal")
	fs.StringVar(&o.loadBalancerClass, "load-balancer-class", config.DefaultLoadBalancerClass,
		"loadBalancerClass of Services to handle")
	fs.BoolVar(&o.defaultClass, "default-class", true, "handle Services without a class")
	o.catalogs.AddFlags(fs)
	selection.AddTemplates(fs, &o.serviceTemplates)
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
	errs = append(errs, o.addTemplates()...)
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

// selectCatalogs sets up the engine from --catalogs, --catalog-file and --unknown-keys.
func (o *webhookOptions) selectCatalogs() []error {
	var problems []manifest.Problem
	if o.sources, problems = catalogfile.Read(o.catalogs.Files()); len(problems) > 0 {
		return catalogfile.Errors(problems)
	}
	var errs []error
	o.reviewer, errs = o.reviewerWith(o.sources)
	return errs
}

// reviewerWith returns the Reviewer with the catalogs of files.
func (o *webhookOptions) reviewerWith(sources []catalogfile.Source) (review.Reviewer, []error) {
	reviewer, errs := o.catalogs.ReviewerWith(sources, o.loadBalancerClass, o.defaultClass)
	if !o.cloudController {
		reviewer = reviewer.WithoutControllers()
	}
	return reviewer, errs
}

// addTemplates adds those of --service-template to the built-in ones.
func (o *webhookOptions) addTemplates() []error {
	more, errs := selection.Templates(o.serviceTemplates, o.reviewer.Library())
	o.templates = slices.Concat(template.BuiltIn(), more)
	return errs
}
