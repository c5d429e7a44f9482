package controllers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

// Every problem at the start is reported in one line that names the flag, file or field, without a stack trace.
func TestStartup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	kubeconfig, err := w.env.ServiceAccountKubeconfig(ctx, env.Namespace, "quaymaster-controllers")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := func(name string, change func(env.CloudConfig)) string {
		c := w.cloudConfig(w.cloud.Endpoint)
		change(c)
		data, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return file(name, string(data))
	}
	good := config("good.yaml", func(env.CloudConfig) {})
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, busyPort, _ := net.SplitHostPort(busy.Addr().String())

	const usage, failure = 2, 1
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown flag":        {args: []string{"--cloud-confg=x"}, code: usage, want: "unknown flag: --cloud-confg"},
		"argument":            {args: []string{"now"}, code: usage, want: `unknown argument "now"`},
		"unknown controller":  {args: []string{"--controllers=*,-rout"}, code: usage, want: `"rout" is not in the list of known controllers`},
		"another provider":    {args: []string{"--cloud-provider=aws"}, code: usage, want: `--cloud-provider must be mycloud; got "aws"`},
		"no cloud config":     {args: []string{"--cloud-config="}, code: usage, want: "--cloud-config is required: name the cloud config file"},
		"no cluster CIDR":     {args: []string{"--cluster-cidr="}, code: usage, want: "--cluster-cidr is required while cloud routes are enabled"},
		"bad cluster CIDR":    {args: []string{"--cluster-cidr=10.244.0.0"}, code: usage, want: "--cluster-cidr must be a CIDR such as 10.244.0.0/16"},
		"two CIDRs of IPv4":   {args: []string{"--cluster-cidr=10.1.0.0/16,10.2.0.0/16"}, code: usage, want: "must be one CIDR, or one per IP family"},
		"no ingress nodes":    {args: []string{"--controllers=service"}, code: usage, want: "service-lb-controller requires ingress-node-controller"},
		"missing kubeconfig":  {args: []string{"--kubeconfig=/nowhere"}, code: failure, want: "--kubeconfig /nowhere must be a readable kubeconfig"},
		"no kubeconfig":       {args: []string{"--kubeconfig="}, code: failure, want: "--kubeconfig is required outside a cluster"},
		"bad kubeconfig":      {args: []string{"--kubeconfig=" + file("kubeconfig", "clusters: 5")}, code: failure, want: "must be a readable kubeconfig"},
		"missing config file": {args: []string{"--cloud-config=/nowhere.yaml"}, code: failure, want: "/nowhere.yaml: no such file"},
		"bad config file": {
			args: []string{"--cloud-config=" + file("bad.yaml", "clusterID: Dev\nzone: x\n")}, code: failure,
			want: "zone: Forbidden: unknown field",
		},
		"several problems of a config file": {
			args: []string{"--cloud-config=" + file("bad.yaml", "clusterID: Dev\nzone: x\n")}, code: failure,
			want: "endpoint: Required value",
		},
		"no route table": {
			args: []string{"--cloud-config=" + config("routes.yaml", func(c env.CloudConfig) { delete(c, "network") })}, code: failure,
			want: "network.routeTableID is required while cloud routes are enabled",
		},
		"another cluster name": {args: []string{"--cluster-name=prod"}, code: failure, want: `--cluster-name must be unset or "dev", the clusterID`},
		"missing token file": {
			args: []string{"--cloud-config=" + config("notoken.yaml", func(c env.CloudConfig) { c["tokenFile"] = "/nowhere" })},
			code: failure, want: "tokenFile: read token file: open /nowhere",
		},
		"empty token file": {
			args: []string{"--cloud-config=" + config("empty.yaml", func(c env.CloudConfig) { c["tokenFile"] = file("empty", "\n") })},
			code: failure, want: "is empty; write the bearer token for the cloud to it",
		},
		"port in use": {args: []string{"--secure-port=" + busyPort}, code: failure, want: "--secure-port: listen tcp 127.0.0.1:" + busyPort},
	} {
		t.Run(name, func(t *testing.T) {
			port, err := env.FreePort()
			if err != nil {
				t.Fatal(err)
			}
			args := append([]string{
				"controllers", "--kubeconfig=" + kubeconfig, "--cloud-config=" + good, "--cluster-cidr=" + env.ClusterCIDR,
				"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--leader-elect=false",
			}, tc.args...)
			code, stderr := runToEnd(t, args)
			if code != tc.code || !strings.Contains(strings.ReplaceAll(stderr, `\"`, `"`), tc.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, tc.code, tc.want, stderr)
			}
			if lines := strings.Count(strings.TrimSpace(stderr), "\n") + 1; lines != 1 || strings.Contains(stderr, "goroutine") {
				t.Errorf("%d lines, want 1:\n%s", lines, stderr)
			}
			if strings.Contains(stderr, "s3cret") || strings.Contains(stderr, cloud.Token) {
				t.Errorf("the token is in the output: %s", stderr)
			}
		})
	}
}

// runToEnd runs the program and returns its exit code and standard error.
func runToEnd(t *testing.T, args []string) (int, string) {
	t.Helper()
	path, err := env.Program("quaymaster")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stderr = &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stderr.String()
}

// The cloud is unavailable when the controllers start and appears later. The leading replica also ends when asked to.
func TestStartWithoutTheCloud(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	server, err := w.env.StartControllers(t.Context(), w.cloudConfig("http://"+address), "--leader-elect=true")
	if err != nil {
		t.Fatal(err)
	}
	svc := w.service("early")
	w.event(svc, "connection refused")
	serve(t, address, w.cloud)
	w.env.AwaitAddress(t, 45*time.Second, svc)
	if err := server.Stop(10 * time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
}
