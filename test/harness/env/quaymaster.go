package env

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"sigs.k8s.io/yaml"
)

// ServiceAccounts of the two roles, as in the chart.
const (
	webhookAccount     = "quaymaster-webhook"
	controllersAccount = "quaymaster-controllers"
)

// WebhookURL returns the chart's value webhook.url for a webhook on a port of the loopback interface.
func WebhookURL(port int) string { return "https://127.0.0.1:" + strconv.Itoa(port) }

// Webhook is the running admission role.
type Webhook struct {
	Server
	// Address is the host and port of the webhooks.
	Address string
	// Metrics is the URL of its metrics.
	Metrics string
	// Health is the host and port of its probes.
	Health string
}

// StartWebhook runs the admission role with a self-signed certificate in memory and the rights of its ServiceAccount,
// on the port that InstallChart has written into the webhook configurations. It uses no cloud unless args contain
// CloudConfigArg. args are appended and take precedence.
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
		Health:  fmt.Sprintf("127.0.0.1:%d", health),
	}
	return w, e.startServer(ctx, &w.Server)
}

// CloudConfig is the cloud config of both roles, with the fields of its documentation.
type CloudConfig map[string]any

// CloudConfigFor returns the cloud config for a running cloud that the demonstration and most tests use.
func CloudConfigFor(clusterID string, cloud *Mycloud) CloudConfig {
	return CloudConfig{
		"clusterID": clusterID,
		"endpoint":  cloud.Endpoint,
		"tokenFile": cloud.TokenFile,
		"network":   map[string]any{"vpcID": "vpc-main", "routeTableID": "rt-main"},
	}
}

// CloudConfigArg writes a cloud config and returns the argument that makes a role read it. Different configs of an Env
// need different names.
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

// StartControllers runs the controllers role with the rights of its ServiceAccount, all controllers enabled and without
// leader election: a single replica would only wait for its own lease after it was killed. args are appended and take
// precedence.
func (e *Env) StartControllers(ctx context.Context, config CloudConfig, args ...string) (*Server, error) {
	s, err := e.PrepareControllers(ctx, config, args...)
	if err != nil {
		return nil, err
	}
	if err := s.Restart(ctx); err != nil {
		return s, err
	}
	return s, nil
}

// PrepareControllers returns the controllers role as StartControllers would run it, for the caller to launch.
func (e *Env) PrepareControllers(ctx context.Context, config CloudConfig, args ...string) (*Server, error) {
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
	path, err := Program("quaymaster")
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("https://127.0.0.1:%d", port)
	return &Server{
		URL:  url,
		env:  e,
		name: "quaymaster-controllers",
		path: path,
		args: append([]string{
			"controllers",
			"--kubeconfig=" + kubeconfig,
			// In a pod these are found automatically. They decide who may read metrics.
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			cloudConfig,
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--cert-dir=" + e.path("pki"),
			"--leader-elect=false",
			"--allocate-node-cidrs",
			"--cluster-cidr=" + ClusterCIDR,
		}, args...),
		ready: probe(url + "/readyz"),
	}, nil
}
