// Package etcd runs clusters of etcd for tests.
package etcd

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/process"
)

const (
	// startLimit bounds the start of a cluster, and startAttempts how often it is tried.
	startLimit, startAttempts = time.Minute, 3
	// progress is how often a watch without changes hears of the revision; otherwise it is ten minutes.
	progress = 500 * time.Millisecond
)

// Cluster is a running cluster.
type Cluster struct {
	Members []*Member
}

// Member is a member of a cluster.
type Member struct {
	*process.Process
	// Endpoint is the address for clients, HOST:PORT.
	Endpoint string
	// Dir has the data of the member.
	Dir string

	t    testing.TB
	spec process.Spec
}

// Start starts a cluster of a number of members, which ends with the test.
func Start(t testing.TB, members int) *Cluster {
	t.Helper()
	path, err := env.Tool("etcd")
	if err != nil {
		t.Fatal(err)
	}
	// Another process may take a port that was free.
	for range startAttempts {
		c := newCluster(t, path, members)
		if err = c.start(t.Context()); err == nil {
			t.Cleanup(c.kill)
			return c
		}
		c.kill()
	}
	t.Fatal(err)
	return nil
}

func newCluster(t testing.TB, path string, members int) *Cluster {
	t.Helper()
	dir := t.TempDir()
	var initial []string
	clients, peers := make([]string, members), make([]string, members)
	for i := range members {
		clients[i], peers[i] = address(t), address(t)
		initial = append(initial, fmt.Sprintf("member-%d=http://%s", i, peers[i]))
	}
	c := &Cluster{}
	// What a member has written survives its process without fsync; benchmarks use several members.
	fsync := fmt.Sprintf("--unsafe-no-fsync=%t", members == 1)
	for i := range members {
		name := fmt.Sprintf("member-%d", i)
		data := filepath.Join(dir, name)
		c.Members = append(c.Members, &Member{t: t, Endpoint: clients[i], Dir: data, spec: process.Spec{Name: name, Path: path, LogDir: dir, Args: []string{
			"--name=" + name, "--data-dir=" + data, "--watch-progress-notify-interval=" + progress.String(),
			"--listen-client-urls=http://" + clients[i], "--advertise-client-urls=http://" + clients[i],
			"--listen-peer-urls=http://" + peers[i], "--initial-advertise-peer-urls=http://" + peers[i],
			"--initial-cluster=" + strings.Join(initial, ","), "--log-level=error", fsync,
		}}})
	}
	return c
}

// start starts the members and waits for them.
func (c *Cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, m := range c.Members {
		m.Start()
	}
	for _, m := range c.Members {
		if err := env.Poll(ctx, m.spec.Name, m.healthy, m.Process); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) kill() {
	for _, m := range c.Members {
		m.Kill()
	}
}

// Endpoints returns the addresses of all members for clients.
func (c *Cluster) Endpoints() []string {
	var all []string
	for _, m := range c.Members {
		all = append(all, m.Endpoint)
	}
	return all
}

// Start starts the member again after Stop or Kill.
func (m *Member) Start() {
	p, err := process.Start(m.spec)
	if err != nil {
		m.t.Error(err)
		return
	}
	m.Process = p
}

// Kill kills the member, as in a crash.
func (m *Member) Kill() { m.Process.Kill() }

func (m *Member) healthy(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Endpoint+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	return nil
}

func address(t testing.TB) string {
	t.Helper()
	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}
