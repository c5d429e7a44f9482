package app

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"quaymaster.dev/cmd/internal/connect"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/clusterca"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/doctor"
	"quaymaster.dev/internal/version"
	"quaymaster.dev/provider/providerid"
)

const (
	// callTimeout limits one call.
	callTimeout = 10 * time.Second
	// callsPerSecond exceeds client-go's default: the doctor makes about a hundred short calls.
	callsPerSecond, callsAtOnce = 100, 200
	// podVariable is set only in pods, where the cluster's DNS can be used.
	podVariable = "KUBERNETES_SERVICE_HOST"
)

// cluster holds the flags that select a cluster, as for kubectl.
type cluster struct{ kubeconfig, context string }

func (c *cluster) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.kubeconfig, "kubeconfig", "",
		"kubeconfig `file`; if empty, KUBECONFIG, ~/.kube/config or the pod's ServiceAccount is used")
	fs.StringVar(&c.context, "context", "", "`name` of the kubeconfig context; empty for the current context")
}

// clients creates a typed and a dynamic client for the API server.
func (c *cluster) clients() (kubernetes.Interface, dynamic.Interface, error) {
	cfg, err := c.restConfig()
	if err != nil {
		return nil, nil, err
	}
	return clientsOf(cfg)
}

func clientsOf(cfg *rest.Config) (kubernetes.Interface, dynamic.Interface, error) {
	api, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return api, objects, nil
}

// connect creates the clients.
func (o *doctorOptions) connect() (doctor.Options, error) {
	options := doctor.Options{
		Namespace: o.releaseNamespace, Release: o.release, Within: o.namespace, Class: o.class, Reach: reach,
		InstanceID: providerid.Parse, Clock: clock.RealClock{},
	}
	rc, err := o.restConfig()
	if err != nil {
		return options, err
	}
	options.Identity = clusterca.Observe(rc).Identity
	if options.API, options.Objects, err = clientsOf(rc); err != nil {
		return options, err
	}
	if os.Getenv(podVariable) != "" {
		options.Resolve = net.DefaultResolver.LookupHost
	}
	if o.cloudConfig == "" {
		return options, nil
	}
	cfg, client, err := cloud(o.cloudConfig)
	if err != nil {
		return options, err
	}
	options.Cloud = client
	options.Orphans = func(ctx context.Context) ([]string, error) {
		m := &member{api: options.API, cloud: client, cfg: cfg}
		if err := m.identify(ctx, options.Identity); err != nil {
			return nil, err
		}
		return describeOrphans(ctx, m)
	}
	return options, nil
}

// cloud loads a cloud config and creates the client of its cloud.
func cloud(file string) (config.Config, *cloudapi.Client, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return cfg, nil, fmt.Errorf("--cloud-config: %w", err)
	}
	calls := connect.Cloud(cfg, "quayctl")
	calls.Timeout = callTimeout
	client, err := cloudapi.New(calls)
	if err != nil {
		return cfg, nil, fmt.Errorf("--cloud-config: %w", err)
	}
	return cfg, client, nil
}

// restConfig locates the API server as kubectl does.
func (c *cluster) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: c.context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig, --context: no usable cluster configuration: %w", err)
	}
	cfg.UserAgent = userAgent()
	cfg.Timeout = callTimeout
	cfg.QPS, cfg.Burst = callsPerSecond, callsAtOnce
	// Warnings are the webhooks' responses to the doctor's dry runs and must not be printed.
	cfg.WarningHandler = rest.NoWarnings{}
	return cfg, nil
}

func userAgent() string { return "quayctl/" + version.Version() }
