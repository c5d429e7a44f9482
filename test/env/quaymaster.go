package env

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"sigs.k8s.io/yaml"
)

// ServiceAccounts of the two roles, as the chart makes them.
const (
	webhookAccount     = "quaymaster-webhook"
	controllersAccount = "quaymaster-controllers"
)

// WebhookURL is what the chart's value webhook.url has to be for a webhook on a port of loopback.
func WebhookURL(port int) string { return "https://127.0.0.1:" + strconv.Itoa(port) }

// Webhook is the running admission role.
type Webhook struct {
	Server
	// Address is where it serves the webhooks.
	Address string
	// Metrics is the URL of its metrics.
	Metrics string
}

// StartWebhook runs the admission role with a certificate of its own making, in memory, and the rights of its ServiceAccount, on
// a port that InstallChart has put into the webhook configurations. It asks no cloud unless CloudConfigArg is among the
// arguments. Arguments given here come last and win.
func (e *Env) StartWebhook(ctx context.Context, port int, args ...string) (*Webhook, error) {
	kubeconfig, err := e.ServiceAccountKubeconfig(ctx, Namespace, webhookAccount)
	if err != nil {
		return nil, err
	}
	health, err := FreePort()
	if err != nil {
		return nil, err
	}
	metrics, err := FreePort()
	if err != nil {
		return nil, err
	}
	w := &Webhook{
		Server: Server{
			name: "quaymaster-webhook",
			path: "quaymaster",
			args: append([]string{
				"webhook",
				"--kubeconfig=" + kubeconfig,
				"--bind-address=127.0.0.1",
				"--secure-port=" + strconv.Itoa(port),
				"--cert-mode=self-signed",
				"--cert-hosts=127.0.0.1",
				"--cert-secret=",
				"--health-probe-bind-address=127.0.0.1:" + strconv.Itoa(health),
				"--metrics-bind-address=127.0.0.1:" + strconv.Itoa(metrics),
			}, args...),
			ready: probe(fmt.Sprintf("http://127.0.0.1:%d/readyz", health)),
		},
		Address: "127.0.0.1:" + strconv.Itoa(port),
		Metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics),
	}
	return w, e.startServer(ctx, &w.Server)
}

// CloudConfig is the cloud config of both roles, as its documentation describes it.
type CloudConfig map[string]any

// CloudConfigFor returns the cloud config of the demonstration and of most tests for a running cloud.
func CloudConfigFor(clusterID string, cloud *Mycloud) CloudConfig {
	return CloudConfig{
		"clusterID": clusterID,
		"endpoint":  cloud.Endpoint,
		"tokenFile": cloud.TokenFile,
		"network":   map[string]any{"vpcID": "vpc-main", "routeTableID": "rt-main"},
	}
}

// CloudConfigArg writes a cloud config and returns the argument that makes a role read it. The name keeps apart those of
// one Env.
func (e *Env) CloudConfigArg(name string, config CloudConfig) (string, error) {
	data, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("write the cloud config of %s: %w", name, err)
	}
	file := e.path(name + "-cloud.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return "", fmt.Errorf("write the cloud config of %s: %w", name, err)
	}
	return "--cloud-config=" + file, nil
}

// StartControllers runs the controllers role with the rights of its ServiceAccount, all its controllers enabled and
// no leader election: a single replica would only wait for its own lease after a restart. Arguments given here come
// last and win.
func (e *Env) StartControllers(ctx context.Context, config CloudConfig, args ...string) (*Server, error) {
	kubeconfig, err := e.ServiceAccountKubeconfig(ctx, Namespace, controllersAccount)
	if err != nil {
		return nil, err
	}
	cloudConfig, err := e.CloudConfigArg("controllers", config)
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("https://127.0.0.1:%d", port)
	s := &Server{
		URL:  url,
		name: "quaymaster-controllers",
		path: "quaymaster",
		args: append([]string{
			"controllers",
			"--kubeconfig=" + kubeconfig,
			cloudConfig,
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--cert-dir=" + e.path("pki"),
			"--leader-elect=false",
			"--allocate-node-cidrs",
			"--cluster-cidr=" + ClusterCIDR,
		}, args...),
		ready: probe(url + "/healthz"),
	}
	return s, e.startServer(ctx, s)
}
