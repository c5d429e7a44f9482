package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"quaymaster.dev/certs"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/cmd/internal/connect"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/health"
	"quaymaster.dev/internal/observability"
	"quaymaster.dev/internal/version"
	"quaymaster.dev/webhook/service"
	"quaymaster.dev/webhook/serving"
)

// webhookUserAgent identifies the role in the logs of the API server and of the cloud.
const webhookUserAgent = "quaymaster-webhook"

func newWebhookCommand() *cobra.Command {
	o := &webhookOptions{}
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Serve the admission webhooks",
		Long: "Serve the admission webhooks for Services of type LoadBalancer, objects of which controllers\n" +
			"create such Services, PersistentVolumes, PersistentVolumeClaims and policies.\n\n" +
			"Every replica serves requests; there is no leader. Namespaces, policies and storage classes are\n" +
			"cached. With a cloud config, volumes are looked up in the cloud; if the cloud does not answer,\n" +
			"requests are admitted with a warning.",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			o.log.Output = cmd.ErrOrStderr()
			logger, err := o.log.Start("webhook")
			if err != nil {
				return err
			}
			ctrl.SetLogger(logger)
			return command.Logged(logger, o.run(klog.NewContext(cmd.Context(), logger)))
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// run serves until the context ends, plus the shutdown delay.
func (o *webhookOptions) run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	cfg, err := connect.APIServer(o.kubeconfig)
	if err != nil {
		return err
	}
	cloudConfig, err := o.loadCloudConfig(logger)
	if err != nil {
		return err
	}
	cfg.UserAgent = webhookUserAgent + "/" + version.Version()
	// Without a client-side limit: requests are limited already, and a call that waited for the limiter would exceed
	// the webhook timeout, so that the request would be admitted unchecked.
	cfg.QPS = -1
	api, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	dynamicAPI, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	source, err := o.certs.source(dynamicAPI, o.configurations)
	if err != nil {
		return err
	}
	known, err := newFacts(cfg, api, cloudConfig)
	if err != nil {
		return err
	}
	listeners, err := o.listen(ctx)
	defer listeners.close()
	if err != nil {
		return err
	}
	// The servers take their logger from the context, and anybody can cause lines of theirs.
	ctx = klog.NewContext(ctx, observability.Bounded(logger))
	draining := &drain{delay: o.shutdownDelay}
	ctx, cancel := draining.serving(ctx)
	defer cancel()
	mgr, err := o.manager(ctx, cfg, dynamicAPI, source, known, draining, listeners)
	if err != nil {
		return err
	}
	logger.Info("Starting", "version", version.String(), "certMode", o.certs.mode)
	return mgr.Start(ctx)
}

// manager sets up everything that runs.
func (o *webhookOptions) manager(
	ctx context.Context, cfg *rest.Config, api dynamic.Interface, source certs.Source, known *facts, draining *drain,
	listeners ports,
) (ctrl.Manager, error) {
	services := newServices(
		service.Options{Reviewer: o.reviewer, Policies: known.policies}, o.templates, o.catalogs.Files(), o.sources, o.reviewerWith)
	legacyregistry.MustRegister(services.broken)
	server, err := o.server(ctx, listeners.webhooks, source, o.handler(known, services, draining))
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		// Nothing is read through the manager's client; with an empty scheme none of its caches can start.
		Scheme: runtime.NewScheme(),
		// See addHealth and addMetrics.
		HealthProbeBindAddress: off,
		Metrics:                metricsserver.Options{BindAddress: off},
		Logger:                 klog.FromContext(ctx),
		BaseContext:            func() context.Context { return ctx },
	})
	if err != nil {
		return nil, fmt.Errorf("set up the server: %w", err)
	}
	certs.RegisterExpiry(legacyregistry.Registerer(), source)
	trust := certs.NewTrust(certs.TrustOptions{
		Source: source, API: api, Configurations: o.configurations,
		MustExist: o.certs.mode != certModeFiles, Recorder: webhookEvents(ctx, known.api), Clock: clock.RealClock{},
		Registerer: legacyregistry.Registerer(),
	})
	return mgr, errors.Join(
		mgr.Add(server),
		o.addMetrics(ctx, mgr, listeners.metrics, source, known.api),
		mgr.Add(prompt{source}),
		mgr.Add(prompt{trust}),
		mgr.Add(prompt{manager.RunnableFunc(known.run)}),
		mgr.Add(prompt{manager.RunnableFunc(services.run)}),
		o.addHealth(ctx, mgr, listeners.health, known.policies.InUse, []health.Check{
			{Name: "ending", Check: draining.check},
			{Name: "webhooks", Check: func(*http.Request) error {
				_, err := source.GetCertificate(nil)
				return err
			}},
			{Name: "certificate", Check: trust.Check},
			{Name: "policies", Check: synced("policies and namespaces", known.policies.HasSynced)},
			{Name: "storage-classes", Check: synced("storage classes", known.classes.hasSynced)},
		}),
	)
}

// addHealth serves the probes. The manager's own endpoint would neither log nor respond which check failed and why.
// Policies that are not in use do not make a pod unready, so that they have a path of their own.
func (o *webhookOptions) addHealth(
	ctx context.Context, mgr ctrl.Manager, l net.Listener, policies func() error, ready []health.Check,
) error {
	if l == nil {
		return nil
	}
	logger := klog.FromContext(ctx)
	mux := http.NewServeMux()
	mux.Handle("/healthz", health.NewHandler("healthz", logger, health.Ping()))
	mux.Handle("/livez", health.NewHandler("livez", logger, health.Ping()))
	readiness := health.NewHandler("readyz", logger, ready...)
	mux.Handle("/readyz", readiness)
	mux.Handle("/readyz/", readiness)
	mux.Handle("/policies/", health.NewHandler("policies", logger, health.Check{
		Name: "use", Check: func(*http.Request) error { return policies() },
	}))
	return mgr.Add(serving.Plain(ctx, "health probe", l, mux, nil))
}

// server returns the server of the webhooks.
func (o *webhookOptions) server(
	ctx context.Context, l net.Listener, source certs.Source, handler http.Handler,
) (*manager.Server, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	certs.ServerOptions(source, o.http2)(config)
	var clients *serving.Clients
	var err error
	if o.clientCAFile != "" {
		if clients, err = serving.NewClients(serving.ClientsOptions{
			CAFile: o.clientCAFile, Names: o.clientNames, Logger: klog.FromContext(ctx), Clock: clock.RealClock{},
		}); err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
	}
	return serving.New(ctx, l, serving.Options{
		Handler: handler, TLS: config, Clients: clients, Timeout: o.requestTimeout, MaxConnections: o.maxConnections,
		Registerer: legacyregistry.Registerer(),
	}), nil
}

// synced returns a check that fails until a cache has synced.
func synced(what string, has func() bool) healthz.Checker {
	return func(*http.Request) error {
		if !has() {
			return fmt.Errorf("%s are not synced yet", what)
		}
		return nil
	}
}

// loadCloudConfig returns nil without --cloud-config. A missing token is only logged: Services can be served without
// it.
func (o *webhookOptions) loadCloudConfig(logger klog.Logger) (*config.Config, error) {
	if o.cloudConfig == "" {
		return nil, nil
	}
	cfg, err := config.Load(o.cloudConfig)
	if err != nil {
		return nil, fmt.Errorf("--cloud-config: %w", err)
	}
	if cfg.LoadBalancerClass != o.loadBalancerClass {
		return nil, fmt.Errorf("--load-balancer-class must be %q, the loadBalancerClass of --cloud-config; got %q",
			cfg.LoadBalancerClass, o.loadBalancerClass)
	}
	if cfg.DefaultClass != o.defaultClass {
		return nil, fmt.Errorf("--default-class must be %t, the defaultClass of --cloud-config; got %t",
			cfg.DefaultClass, o.defaultClass)
	}
	if _, err := cfg.TokenFile.Read(); err != nil {
		logger.Error(err, "Cannot read the cloud token; volumes are admitted with a warning until it is available")
	}
	if _, err := connect.Cloud(cfg, "").TLS.Config(); err != nil {
		logger.Error(err, "Cannot read the certificates for the cloud; volumes are admitted with a warning until they "+
			"are available")
	}
	return &cfg, nil
}

// ports are the listeners of the servers; nil for those that are off.
type ports struct{ webhooks, health, metrics net.Listener }

func (p ports) close() {
	for _, l := range []net.Listener{p.webhooks, p.health, p.metrics} {
		if l != nil {
			_ = l.Close() // its server may have closed it
		}
	}
}

// listen listens on every address.
func (o *webhookOptions) listen(ctx context.Context) (p ports, err error) {
	for _, listener := range []struct {
		flag, address string
		into          *net.Listener
	}{
		{"--secure-port", net.JoinHostPort(o.bindAddress, strconv.Itoa(o.securePort)), &p.webhooks},
		{"--health-probe-bind-address", o.healthAddress, &p.health},
		{"--metrics-bind-address", o.metricsAddress, &p.metrics},
	} {
		if listener.address == off {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listener.address)
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w; stop the process that listens there or choose a different port", err)
		}
		if err != nil {
			return p, fmt.Errorf("%s: %w", listener.flag, err)
		}
		*listener.into = l
	}
	return p, nil
}
