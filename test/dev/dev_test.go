package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/process"
)

// startLimit is how long the demonstration may take to become ready on a busy machine.
const startLimit = 5 * time.Minute

// demonstration is a running bin/dev, accessed as users do: through the files it writes.
type demonstration struct {
	*process.Process

	dir   string
	env   map[string]string
	kube  client.Client
	cloud *cloudapi.Client
}

// startDemonstration runs bin/dev with its own directory and waits until it is ready.
func startDemonstration(t *testing.T, dir string) *demonstration {
	t.Helper()
	path, err := env.Program("dev")
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(process.Spec{Name: "dev", Path: path, Args: []string{"--dir=" + dir}, LogDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the demonstration:\n%s", process.Tail(p.Log(), 40))
		}
		if err := p.Stop(time.Minute); err != nil {
			t.Error(err)
		}
	})
	d := &demonstration{Process: p, dir: dir}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	err = env.Poll(ctx, "the demonstration", func(context.Context) error {
		owner, err := os.ReadFile(filepath.Join(dir, "ready"))
		if err == nil && strings.TrimSpace(string(owner)) != strconv.Itoa(p.PID()) {
			return fmt.Errorf("the ready file belongs to process %s", owner)
		}
		return err
	}, p)
	if err != nil {
		t.Fatal(err)
	}
	d.connect(t)
	return d
}

// connect evaluates the env file with a shell and creates clients from it.
func (d *demonstration) connect(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", ". "+filepath.Join(d.dir, "env")+" && env").Output()
	if err != nil {
		t.Fatal(err)
	}
	d.env = map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "=")
		d.env[name] = value
	}
	t.Setenv("KUBECONFIG", d.env["KUBECONFIG"])
	kubeconfig, err := config.GetConfig()
	if err != nil {
		t.Fatal(err)
	}
	if d.kube, err = client.New(kubeconfig, client.Options{}); err != nil {
		t.Fatal(err)
	}
	d.cloud, err = cloudapi.New(cloudapi.Options{
		Endpoint: d.env["MYCLOUD_ENDPOINT"],
		Token:    cloudapi.StaticToken(d.env["MYCLOUD_TOKEN"]),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// kubectl runs kubectl in the root of the repository, as in the guide.
func (d *demonstration) kubectl(t *testing.T, args ...string) env.Output {
	t.Helper()
	return d.feed(t, "", args...)
}

// feed runs kubectl with a manifest on standard input.
func (d *demonstration) feed(t *testing.T, manifest string, args ...string) env.Output {
	t.Helper()
	out, err := env.Kubectl(t.Context(), d.env["KUBECONFIG"], manifest, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// must runs kubectl and returns its standard output. It fails the test if kubectl fails.
func (d *demonstration) must(t *testing.T, args ...string) string {
	t.Helper()
	out := d.kubectl(t, args...)
	if out.Code != 0 {
		t.Fatalf("kubectl %s: exit code %d: %s", strings.Join(args, " "), out.Code, out.Stderr)
	}
	return out.Stdout
}

// mycloud runs bin/mycloud as in the guide and returns its output.
func (d *demonstration) mycloud(t *testing.T, args ...string) string {
	t.Helper()
	path, err := env.Program("mycloud")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "MYCLOUD_ENDPOINT="+d.env["MYCLOUD_ENDPOINT"],
		"MYCLOUD_TOKEN="+d.env["MYCLOUD_TOKEN"])
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("mycloud %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// pid reads the process ID of a part of the demonstration.
func (d *demonstration) pid(t *testing.T, name string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, "pids", name+".pid"))
	if err != nil {
		t.Fatal(err)
	}
	number, _, _ := strings.Cut(string(data), " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// pids reads the process IDs of all parts.
func (d *demonstration) pids(t *testing.T) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(d.dir, "pids", "*.pid"))
	if err != nil || len(files) == 0 {
		t.Fatalf("PID files: %v, %v", files, err)
	}
	found := map[string]int{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pid")
		found[name] = d.pid(t, name)
	}
	return found
}

// gone fails the test unless all processes terminate.
func gone(t *testing.T, pids map[string]int) {
	t.Helper()
	env.Eventually(t, 20*time.Second, "the end of all processes", func(context.Context) error {
		for name, pid := range pids {
			if syscall.Kill(pid, 0) == nil {
				return fmt.Errorf("%s (process %d) is still running", name, pid)
			}
		}
		return nil
	})
}
