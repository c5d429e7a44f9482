package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"quaymaster.dev/certs"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/observability"
	"quaymaster.dev/internal/version"
)

// webhookUserAgent names the role in the logs of the API server and of the cloud.
const webhookUserAgent = "quaymaster-webhook"

func newWebhookCommand() *cobra.Command {
	o := &webhookOptions{}
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Serve the admission webhooks",
		Long: "Serve the admission webhooks for Services of type LoadBalancer, PersistentVolumes, PersistentVolumeClaims and policies.\n\n" +
			"Every replica serves; there is no leader. Of the cluster it keeps namespaces, policies and storage classes. With a\n" +
			"cloud config it asks the cloud about volumes; a cloud that does not answer refuses nothing.",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// run serves until the context ends, and a while longer.
func (o *webhookOptions) run(ctx context.Context, cmd *cobra.Command) error {
	logger, handler, err := observability.NewLogger(observability.LogOptions{
		Format: o.logFormat, Verbosity: o.verbosity, Output: cmd.ErrOrStderr(),
	})
	if err != nil {
		return err
	}
	logger = logger.WithValues("role", "webhook")
	// Libraries log through these.
	slog.SetDefault(slog.New(handler))
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	ctrl.SetLogger(logger)
	ctx = klog.NewContext(ctx, logger)

	cfg, err := restConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	cloudConfig, err := o.loadCloudConfig(logger)
	if err != nil {
		return err
	}
	cfg.UserAgent = webhookUserAgent + "/" + version.Version()
	// Calls come no faster than reviews, which are limited. A crowd that waited for its turn would be admitted unchecked.
	cfg.QPS = -1
	api, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	source, err := o.certs.source(cfg, api, o.configurations)
	if err != nil {
		return err
	}
	known, err := newFacts(cfg, api, cloudConfig)
	if err != nil {
		return err
	}
	if err := o.portsAreFree(ctx); err != nil {
		return err
	}
	draining := &drain{delay: o.shutdownDelay}
	ctx, cancel := draining.serving(ctx)
	defer cancel()
	mgr, err := o.manager(ctx, cfg, source, known, draining)
	if err != nil {
		return err
	}
	logger.Info("Starting", "version", version.String(), "certMode", o.certs.mode)
	return mgr.Start(ctx)
}

// manager has everything that runs.
func (o *webhookOptions) manager(
	ctx context.Context, cfg *rest.Config, source certs.Source, known *facts, draining *drain,
) (ctrl.Manager, error) {
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{
		Host: o.bindAddress, Port: o.securePort, TLSOpts: []func(*tls.Config){certs.ServerOptions(source, o.http2)},
	})
	if err := o.register(server, known, draining); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		// Nothing is read through the manager's client; an empty scheme makes sure that none of its caches ever starts.
		Scheme:                 runtime.NewScheme(),
		WebhookServer:          server,
		HealthProbeBindAddress: o.healthAddress,
		// See addMetrics.
		Metrics:     metricsserver.Options{BindAddress: off},
		Logger:      klog.FromContext(ctx),
		BaseContext: func() context.Context { return ctx },
	})
	if err != nil {
		return nil, fmt.Errorf("set up the server: %w", err)
	}
	if err := certs.RegisterExpiry(legacyregistry.Registerer(), source); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	trust := certs.NewTrust(certs.TrustOptions{
		Source: source, API: known.api.AdmissionregistrationV1(), Configurations: o.configurations,
		MustExist: o.certs.mode != certModeFiles, Clock: clock.RealClock{},
	})
	return mgr, errors.Join(
		o.addMetrics(mgr),
		mgr.Add(source),
		mgr.Add(trust),
		mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			known.policies.Run(ctx)
			return nil
		})),
		mgr.Add(manager.RunnableFunc(known.classes.run)),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		// Asking the manager for its server is what makes it start that.
		mgr.AddReadyzCheck("ending", draining.check),
		mgr.AddReadyzCheck("webhooks", withCertificate(source, mgr.GetWebhookServer().StartedChecker())),
		mgr.AddReadyzCheck("certificate", trust.Check),
		mgr.AddReadyzCheck("policies", synced("policies and namespaces", known.policies.HasSynced)),
		mgr.AddReadyzCheck("storage-classes", synced("storage classes", known.classes.hasSynced)),
	)
}

// synced is the check that a cache has what the cluster has.
func synced(what string, has func() bool) healthz.Checker {
	return func(*http.Request) error {
		if !has() {
			return fmt.Errorf("%s have not been read yet", what)
		}
		return nil
	}
}

// loadCloudConfig is nil without a flag. A token that is not there yet is no reason not to serve Services.
func (o *webhookOptions) loadCloudConfig(logger klog.Logger) (*config.Config, error) {
	if o.cloudConfig == "" {
		return nil, nil
	}
	cfg, err := config.Load(o.cloudConfig)
	if err != nil {
		return nil, fmt.Errorf("--cloud-config: %w", err)
	}
	if cfg.LoadBalancerClass != o.loadBalancerClass {
		return nil, fmt.Errorf("--load-balancer-class must be loadBalancerClass of --cloud-config, %s; got %s", cfg.LoadBalancerClass, o.loadBalancerClass)
	}
	if _, err := cfg.TokenFile.Read(); err != nil {
		logger.Error(err, "The cloud cannot be asked; volumes are admitted with a warning until the token is there")
	}
	return &cfg, nil
}

// portsAreFree tries every address, so that the message can name the flag.
func (o *webhookOptions) portsAreFree(ctx context.Context) error {
	for _, listener := range []struct{ flag, address string }{
		{"--secure-port", net.JoinHostPort(o.bindAddress, strconv.Itoa(o.securePort))},
		{"--health-probe-bind-address", o.healthAddress},
		{"--metrics-bind-address", o.metricsAddress},
	} {
		if listener.address == off {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listener.address)
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("%s: %w; stop what listens there or choose another port", listener.flag, err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", listener.flag, err)
		}
		if err := l.Close(); err != nil {
			return fmt.Errorf("%s: %w", listener.flag, err)
		}
	}
	return nil
}

// restConfig reads the kubeconfig or, without one, what the pod was given.
func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig must name a file, outside a cluster: %w", err)
		}
		return cfg, nil
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s must be a readable kubeconfig: %w", kubeconfig, err)
	}
	return cfg, nil
}

// metricsHeaderTimeout bounds how long a scrape may take to say what it wants.
const metricsHeaderTimeout = 10 * time.Second

// addMetrics serves the registry that the controllers serve, too. The manager's own endpoint would serve that of
// controller-runtime, which has nothing of client-go: its metrics go to one registry, and the program's other role brings in
// the one that comes first. Both together would say everything about Go and the process twice.
func (o *webhookOptions) addMetrics(mgr ctrl.Manager) error {
	if o.metricsAddress == off {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", legacyregistry.Handler())
	return mgr.Add(&manager.Server{
		Name:   "metrics",
		Server: &http.Server{Addr: o.metricsAddress, Handler: mux, ReadHeaderTimeout: metricsHeaderTimeout},
	})
}
