package app

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"quaymaster.dev/cmd/internal/connect"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/version"
)

const (
	// callTimeout limits one call.
	callTimeout = 10 * time.Second
	// callsPerSecond exceeds client-go's default: the doctor makes about a hundred short calls.
	callsPerSecond, callsAtOnce = 100, 200
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

// cloudOf loads a cloud config and creates the client of its cloud. identify is cloudapi.Options.Identify.
func cloudOf(file string, identify func(context.Context) error) (config.Config, *cloudapi.Client, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return cfg, nil, fmt.Errorf("--cloud-config: %w", err)
	}
	calls := connect.Cloud(cfg, "quayctl")
	calls.Timeout, calls.Identify = callTimeout, identify
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
