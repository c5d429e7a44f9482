package controllers

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

// What may change by itself is waited for: the process is alive, not ready, and says why, at once and again only after a
// while.
func TestWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("for the API server", func(t *testing.T) {
		detour := newDetour(t, w.env.Admin.Host)
		p := w.launch(t, "--kubeconfig="+detour.kubeconfig(t, w.env.AdminKubeconfig))
		p.waits(t, "waiting for the API server: ", "connection refused")
		detour.open(t)
		p.starts(t)
	})
	t.Run("for rights", func(t *testing.T) {
		stranger, err := w.env.UserKubeconfig("stranger")
		if err != nil {
			t.Fatal(err)
		}
		w.launch(t, "--kubeconfig="+stranger).waits(t, "lacks permissions", "install the chart's roles and bindings")
	})
	t.Run("for a token", func(t *testing.T) {
		token := filepath.Join(t.TempDir(), "token")
		write := func(text string) {
			if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("s3cret")
		config := w.cloudConfig(w.cloud.Endpoint)
		config["tokenFile"] = token
		arg, err := w.env.CloudConfigArg("waiting", config)
		if err != nil {
			t.Fatal(err)
		}
		p := w.launch(t, arg)
		p.waits(t, "waiting for the cloud: ", "rejects the token; write a valid token to the file")
		if log := p.log(t); strings.Contains(log, "s3cret") {
			t.Errorf("the token is in the log: %s", log)
		}
		write(cloud.Token)
		p.starts(t)
	})
}

// waiting is a process that cannot start yet.
type waiting struct{ *env.Server }

// launch runs the controllers without waiting for them.
func (w *world) launch(t *testing.T, args ...string) *waiting {
	t.Helper()
	s, err := w.env.PrepareControllers(t.Context(), w.config, args...)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return &waiting{s}
}

// probe returns the code and the body of a probe; 0 if the process does not answer.
func (p *waiting) probe(ctx context.Context, path string) (int, string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+path, http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as a kubelet
	}}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

func (p *waiting) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.Log())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// waits expects that the process is alive but not ready because of a reason with these parts, for longer than a few
// attempts.
func (p *waiting) waits(t *testing.T, parts ...string) {
	t.Helper()
	check := func(ctx context.Context) error {
		if exit := p.Exit(); exit != nil {
			t.Fatal(exit)
		}
		code, body := p.probe(ctx, "/readyz")
		for _, part := range parts {
			if code != http.StatusInternalServerError || !strings.Contains(body, part) {
				return fmt.Errorf("/readyz answers %d: %s; want %q", code, body, parts)
			}
		}
		if code, body := p.probe(ctx, "/livez"); code != http.StatusOK {
			return fmt.Errorf("/livez answers %d: %s", code, body)
		}
		return nil
	}
	env.Eventually(t, soon, "the reason in /readyz", check)
	time.Sleep(5 * time.Second)
	if err := check(t.Context()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(p.log(t), parts[len(parts)-1]); n < 1 || n > 3 {
		t.Errorf("the reason is in the log %d times, want it once, and once as the cause of a failed probe:\n%s", n, p.log(t))
	}
}

// starts expects that the process becomes ready, and ends when it is asked to.
func (p *waiting) starts(t *testing.T) {
	t.Helper()
	if err := p.WaitReady(t.Context(), 15*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(15 * time.Second); err != nil {
		t.Error(err)
	}
}

// detour is an address of the API server at which nothing listens until it is opened.
type detour struct{ from, to string }

func newDetour(t *testing.T, server string) *detour {
	t.Helper()
	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	return &detour{from: fmt.Sprintf("127.0.0.1:%d", port), to: target.Host}
}

// kubeconfig returns a copy of a kubeconfig that takes the detour.
func (d *detour) kubeconfig(t *testing.T, file string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + d.from
	}
	copied := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, copied); err != nil {
		t.Fatal(err)
	}
	return copied
}

// open forwards connections until the test ends.
func (d *detour) open(t *testing.T) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", d.from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).DialContext(context.WithoutCancel(t.Context()), "tcp", d.to)
			if err != nil {
				client.Close()
				continue
			}
			go func() { _, _ = io.Copy(server, client); server.Close() }()
			go func() { _, _ = io.Copy(client, server); client.Close() }()
		}
	}()
}
