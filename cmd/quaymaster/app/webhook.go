package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	admissionregistrationv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"quaymaster.dev/certs"
	"quaymaster.dev/cmd/internal/command"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/observability"
	"quaymaster.dev/internal/rules"
	"quaymaster.dev/internal/version"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/service"
)

// Webhooks by their names in logs and metrics. The path of each is / and its name; the chart's configurations know it.
const (
	mutateService   = "mutate-service"
	validateService = "validate-service"
)

func newWebhookCommand() *cobra.Command {
	o := &webhookOptions{}
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Serve the admission webhooks",
		Long: "Serve the admission webhooks for Services of type LoadBalancer.\n\n" +
			"Every replica serves; there is no leader. Nothing is read from the cluster but the own webhook configurations.",
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

// run serves until the context ends.
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
	cfg.UserAgent = "quaymaster-webhook/" + version.Version()
	api, err := admissionregistrationv1.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	source, err := o.source(api)
	if err != nil {
		return err
	}
	if err := o.portsAreFree(ctx); err != nil {
		return err
	}
	mgr, err := o.manager(ctx, cfg, api, source)
	if err != nil {
		return err
	}
	logger.Info("Starting", "version", version.String(), "certMode", o.certMode)
	return mgr.Start(ctx)
}

// manager has everything that runs.
func (o *webhookOptions) manager(ctx context.Context, cfg *rest.Config, api admissionregistrationv1.AdmissionregistrationV1Interface, source certs.Source) (ctrl.Manager, error) {
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{
		Host: o.bindAddress, Port: o.securePort, TLSOpts: []func(*tls.Config){certs.ServerOptions(source, o.http2)},
	})
	if err := o.register(server); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		// Nothing is read through the manager's client; an empty scheme makes sure that no cache ever starts.
		Scheme:                 runtime.NewScheme(),
		WebhookServer:          server,
		HealthProbeBindAddress: o.healthAddress,
		Metrics:                metricsserver.Options{BindAddress: o.metricsAddress},
		Logger:                 klog.FromContext(ctx),
		BaseContext:            func() context.Context { return ctx },
	})
	if err != nil {
		return nil, fmt.Errorf("set up the server: %w", err)
	}
	if err := certs.RegisterExpiry(metrics.Registry, source); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	trust := certs.NewTrust(certs.TrustOptions{
		Source: source, API: api, Configurations: o.configurations, MustExist: o.certMode == certModeSelfSigned, Clock: clock.RealClock{},
	})
	return mgr, errors.Join(
		mgr.Add(source),
		mgr.Add(trust),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		// Asking the manager for its server is what makes it start that.
		mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker()),
		mgr.AddReadyzCheck("certificate", trust.Check),
	)
}

// register adds the webhooks to the server.
func (o *webhookOptions) register(server ctrlwebhook.Server) error {
	counters, err := webhook.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	count := func(name string) func(rules.Finding) {
		return func(f rules.Finding) { counters.CountFinding(name, f.ID, string(f.Severity)) }
	}
	owned := loadbalancer.Options{Class: o.loadBalancerClass}
	reviewers := map[string]webhook.Reviewer{
		mutateService: service.NewMutator(service.MutatorOptions{
			Defaulter: service.DefaulterFunc(func(_ context.Context, svc *corev1.Service) (map[string]string, error) {
				return loadbalancer.Defaults(svc, owned), nil
			}),
			OnFinding: count(mutateService),
		}),
		validateService: service.NewValidator(service.ValidatorOptions{
			Review: func(oldSvc, newSvc *corev1.Service) []rules.Finding {
				return loadbalancer.Review(oldSvc, newSvc, owned)
			},
			OnFinding: count(validateService),
		}),
	}
	limit := webhook.NewLimit(o.maxRequests)
	for name, reviewer := range reviewers {
		server.Register("/"+name, webhook.NewHandler(webhook.HandlerOptions{
			Name: name, Resource: service.Resource(), Reviewer: reviewer, Limit: limit, Metrics: counters, Clock: clock.RealClock{},
		}))
	}
	return nil
}

// source has the certificates of the mode.
func (o *webhookOptions) source(api admissionregistrationv1.AdmissionregistrationV1Interface) (certs.Source, error) {
	if o.certMode == certModeSelfSigned {
		return certs.NewSelfSigned(certs.SelfSignedOptions{
			Hosts: o.selfSignedHosts, Validity: o.validity, API: api, Configurations: o.configurations, Clock: clock.RealClock{},
		})
	}
	files, err := certs.NewFiles(o.certFile, o.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w; write a certificate and its key there, or choose --cert-mode=self-signed", err)
	}
	return files, nil
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
