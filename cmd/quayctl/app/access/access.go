// Package access connects to the cluster and the cloud that flags select.
package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"quaymaster.dev/cmd/internal/connect"
	"quaymaster.dev/cmd/quayctl/app/flags"
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

// Cluster holds the flags that select a cluster, as for kubectl.
type Cluster struct{ Kubeconfig, Context string }

// AddFlags adds the flags.
func (c *Cluster) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Kubeconfig, "kubeconfig", "",
		"kubeconfig `file`; if empty, KUBECONFIG, ~/.kube/config or the pod's ServiceAccount is used")
	fs.StringVar(&c.Context, "context", "", "`name` of the kubeconfig context; empty for the current context")
}

// Clients creates a typed and a dynamic client for the API server.
func (c *Cluster) Clients() (kubernetes.Interface, dynamic.Interface, error) {
	cfg, err := c.RESTConfig()
	if err != nil {
		return nil, nil, err
	}
	return ClientsOf(cfg)
}

// ClientsOf creates the clients for a configuration.
func ClientsOf(cfg *rest.Config) (kubernetes.Interface, dynamic.Interface, error) {
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

// Cloud loads a cloud config and creates the client of its cloud. identify is cloudapi.Options.Identify.
func Cloud(file string, identify func(context.Context) error) (config.Config, *cloudapi.Client, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return cfg, nil, fmt.Errorf("--cloud-config: %w", err)
	}
	calls := connect.Cloud(cfg, flags.Program)
	calls.Timeout, calls.Identify = callTimeout, identify
	client, err := cloudapi.New(calls)
	if err != nil {
		return cfg, nil, fmt.Errorf("--cloud-config: %w", err)
	}
	return cfg, client, nil
}

// RESTConfig locates the API server as kubectl does.
func (c *Cluster) RESTConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: c.Context}).ClientConfig()
	if err != nil {
		return nil, unusable(rules, err)
	}
	cfg.UserAgent = UserAgent()
	cfg.Timeout = callTimeout
	cfg.QPS, cfg.Burst = callsPerSecond, callsAtOnce
	// Warnings are the webhooks' responses to the doctor's dry runs and must not be printed.
	cfg.WarningHandler = rest.NoWarnings{}
	return cfg, nil
}

// unusable explains why there is no configuration of a cluster.
func unusable(rules *clientcmd.ClientConfigLoadingRules, err error) error {
	variable := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	text, _, garbage := strings.Cut(err.Error(), ": couldn't get version/kind") // what follows is of Go
	exists := func(file string) bool { _, err := os.Stat(file); return err == nil }
	switch {
	case garbage:
		return fmt.Errorf("%s: must be a kubeconfig; correct the file, --kubeconfig or KUBECONFIG", text)
	case !clientcmd.IsEmptyConfig(err):
		return fmt.Errorf("--kubeconfig, --context: no usable cluster configuration: %w", err)
	case variable != "" && !slices.ContainsFunc(rules.Precedence, exists):
		return fmt.Errorf("KUBECONFIG is %s, which does not exist; correct it, or set --kubeconfig", variable)
	}
	return errors.New("no cluster is configured; set --kubeconfig or KUBECONFIG to a kubeconfig with a current context, or use --context")
}

// WithRemedy adds to an error of the API server or of the cloud what may help, if that is known.
func WithRemedy(err error) error {
	cloud, isCloud := errors.AsType[*cloudapi.Error](err)
	call, isCall := errors.AsType[*url.Error](err)
	switch {
	case isCloud && cloud.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w; the cloud rejects the token: correct the file that tokenFile of the cloud config names", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w; the API server rejects the credentials: correct or renew those of the kubeconfig", err)
	case isCall && strings.HasPrefix(call.URL, "http"):
		at, _ := url.Parse(call.URL)
		return fmt.Errorf("%w; check that %s is the right address, and that it can be reached from here", err, at.Host)
	}
	return err
}

// UserAgent names this program and its version to servers.
func UserAgent() string { return flags.Program + "/" + version.Version() }
