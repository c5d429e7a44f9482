package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/mycloud/app"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/authority"
)

// TestMain makes the test binary act as the program: tests that kill a server start it as a process.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		if files, err := strconv.ParseUint(os.Getenv(fileLimit), 10, 64); err == nil {
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: files}); err != nil {
				panic(err)
			}
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		code := app.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = app.Run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestBadInputGetsOneLine(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tokenFile, dir := write(t, "token", "sesame\n"), t.TempDir()
	serve := func(args ...string) []string {
		return append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", dir, "--token-file", tokenFile}, args...)
	}
	held := startServer(t, t.TempDir())
	tests := map[string]struct {
		args []string
		env  map[string]string
		code int
		want []string
	}{
		"unknown flag":         {args: serve("--dat", "x"), code: 2, want: []string{"unknown flag: --dat", "--help"}},
		"unknown command":      {args: []string{"serv"}, code: 2, want: []string{"serv", `did you mean "serve"`}},
		"stray argument":       {args: serve("now"), code: 2, want: []string{`unknown argument "now"`}},
		"malformed duration":   {args: serve("--job-duration", "5"), code: 2, want: []string{"--job-duration"}},
		"malformed network":    {args: serve("--member-network", "10.0.0.0"), code: 2, want: []string{"--member-network \"10.0.0.0\"", "10.0.0.0/24"}},
		"negative duration":    {args: serve("--job-duration", "-5s"), code: 2, want: []string{"--job-duration"}},
		"malformed store":      {args: serve("--store", "etcd:10.0.0.1", "--encryption-key-file", tokenFile), code: 1, want: []string{"--store", "must be etcd://HOST:PORT"}},
		"store without key":    {args: serve("--store", "etcd://10.0.0.1:2379"), code: 2, want: []string{"requires --encryption-key-file"}},
		"restore to nowhere":   {args: []string{"restore", tokenFile}, code: 2, want: []string{"requires one of --data-dir and --store"}},
		"restore of no backup": {args: []string{"restore", tokenFile, "--data-dir", filepath.Join(dir, "new")}, code: 1, want: []string{tokenFile, "invalid database"}},
		"migrate to nowhere":   {args: []string{"migrate", "--data-dir", dir}, code: 2, want: []string{"requires --data-dir and --store"}},
		"no data directory": {
			args: []string{"serve", "--token-file", tokenFile}, code: 2, want: []string{"--data-dir is required"},
		},
		"no token": {
			args: []string{"serve", "--data-dir", dir}, code: 1,
			want: []string{"token is required", "--token-file", "MYCLOUD_TOKEN"},
		},
		"empty token file": {
			args: serve("--token-file", write(t, "empty", " \n")), code: 1, want: []string{"--token-file", "is empty"},
		},
		"missing token file": {
			args: serve("--token-file", dir+"/none"), code: 1, want: []string{"--token-file", dir + "/none"},
		},
		"missing inventory": {
			args: serve("--inventory", dir+"/none"), code: 1, want: []string{"--inventory", dir + "/none"},
		},
		"unknown field": {
			args: serve("--inventory", write(t, "inv.yaml", "zone: []")), code: 1,
			want: []string{"inv.yaml", "zone: Forbidden: unknown field"},
		},
		"port in use": {
			args: serve("--listen", taken.Addr().String()), code: 1,
			want: []string{"--listen " + taken.Addr().String(), "in use"},
		},
		"plain HTTP for others": {
			args: serve("--listen", "0.0.0.0:0"), code: 2,
			want: []string{"--listen 0.0.0.0:0", "in the clear", "--tls-cert-file", "--allow-insecure-http"},
		},
		"certificate without key": {args: serve("--tls-cert-file", tokenFile), code: 2, want: []string{"--tls-cert-file and --tls-key-file"}},
		"no certificate": {
			args: serve("--tls-cert-file", tokenFile, "--tls-key-file", tokenFile), code: 1,
			want: []string{"--tls-cert-file " + tokenFile, "in PEM"},
		},
		"malformed address":     {args: serve("--listen", "nowhere"), code: 1, want: []string{"--listen nowhere"}},
		"data directory a file": {args: serve("--data-dir", tokenFile), code: 1, want: []string{"--data-dir", tokenFile}},
		"data directory in use": {
			args: serve("--data-dir", held.dir), code: 1, want: []string{"--data-dir", "in use by another server"},
		},
		"no endpoint": {args: []string{"get", "zones"}, code: 1, want: []string{"--endpoint", "MYCLOUD_ENDPOINT"}},
		"malformed endpoint": {
			args: []string{"get", "zones", "--endpoint", "localhost:1"},
			env:  map[string]string{"MYCLOUD_TOKEN": "t"},
			code: 1,
			want: []string{"localhost:1", "http://host:port"},
		},
		"token in the clear": {
			args: []string{"get", "zones", "--endpoint", "http://192.0.2.1:80"},
			env:  map[string]string{"MYCLOUD_TOKEN": "t"},
			code: 1,
			want: []string{"http://192.0.2.1:80", "in the clear", "--allow-insecure-http"},
		},
		"half a client certificate": {
			args: []string{"get", "zones", "--endpoint", held.endpoint, "--client-cert-file", tokenFile},
			env:  map[string]string{"MYCLOUD_TOKEN": held.token},
			code: 1, want: []string{tokenFile},
		},
		"no client token": {
			args: []string{"get", "zones", "--endpoint", held.endpoint}, code: 1,
			want: []string{"token is required", "MYCLOUD_TOKEN"},
		},
		"wrong token": {
			args: []string{"get", "zones", "--endpoint", held.endpoint}, env: map[string]string{"MYCLOUD_TOKEN": "t"}, code: 1,
			want: []string{"rejected the token"},
		},
		"cloud unreachable": {
			args: []string{"get", "zones", "--endpoint", "http://127.0.0.1:1"},
			env:  map[string]string{"MYCLOUD_TOKEN": "t"},
			code: 1,
			want: []string{"no response of the cloud at 127.0.0.1:1", "refused", "start it with mycloud serve, or correct --endpoint"},
		},
		"unknown kind": {
			args: []string{"get", "servers"}, code: 2, want: []string{`unknown kind "servers"`, "instances"},
		},
		"misspelled kind": {args: []string{"get", "lood-balancers"}, code: 2, want: []string{`unknown kind "lood-balancers"; did you mean "load-balancers"?`}},
		"no kind":         {args: []string{"get"}, code: 2, want: []string{"KIND"}},
		"unknown output": {
			args: []string{"get", "zones", "-o", "xml"}, code: 2, want: []string{`--output "xml"`, "table, json or yaml"},
		},
		"nothing to delete": {args: []string{"delete", "i-1"}, code: 2, want: []string{`unknown command "i-1"`}},
		"no instance":       {args: []string{"delete", "instance"}, code: 2, want: []string{"requires the argument ID"}},
		"one token for all": {
			args: serve("--edge-token-file", tokenFile), code: 1, want: []string{"the token of edges must not be the token of clients"},
		},
		"missing encryption key": {
			args: serve("--encryption-key-file", dir+"/none"), code: 1, want: []string{"--encryption-key-file", dir + "/none"},
		},
		"malformed encryption key": {
			args: serve("--encryption-key-file", tokenFile), code: 1, want: []string{"must be 32 bytes in base64", "openssl rand"},
		},
		"absent object": {
			args: []string{"get", "load-balancers", "lb-none", "--endpoint", held.endpoint},
			env:  map[string]string{"MYCLOUD_TOKEN": held.token},
			code: 1, want: []string{`no load-balancer "lb-none"`},
		},
		"absent instance": {
			args: []string{"stop", "instance", "i-none", "--endpoint", held.endpoint},
			env:  map[string]string{"MYCLOUD_TOKEN": held.token},
			code: 1, want: []string{"i-none", "resource-not-found"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("MYCLOUD_TOKEN", test.env["MYCLOUD_TOKEN"])
			t.Setenv("MYCLOUD_ENDPOINT", "")
			code, stdout, stderr := run(t, test.args...)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Errorf("want one line on stderr: stdout %q, stderr %q", stdout, stderr)
			}
			for _, w := range test.want {
				if !strings.Contains(stderr, w) {
					t.Errorf("%q lacks %q", stderr, w)
				}
			}
		})
	}
}

// TestCertificatesAndEdges creates a certificate from files, and drains and deletes an edge.
func TestCertificatesAndEdges(t *testing.T) {
	s := startServer(t, t.TempDir(), "--edge-token-file", write(t, "edge-token", "open-edge\n"))
	t.Setenv("MYCLOUD_ENDPOINT", s.endpoint)
	t.Setenv("MYCLOUD_TOKEN", s.token)
	do := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := run(t, args...)
		if code != 0 || stderr != "" {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
		return stdout
	}
	now := time.Now()
	pair, err := authority.New(t, "test", now, now.Add(time.Hour)).
		IssueServing("shop", now, now.Add(time.Hour), "shop.example.com")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := pair.Write(t.TempDir(), "tls")
	if err != nil {
		t.Fatal(err)
	}
	created := strings.Fields(do("create", "certificate", "shop", "--cert", cert, "--key", key))
	if len(created) < 2 || !strings.HasPrefix(created[1], "cert-") {
		t.Fatalf("created: %v", created)
	}
	if out := do("get", "certificates", created[1]); !strings.Contains(out, "shop.example.com") {
		t.Errorf("certificates: %s", out)
	}
	if code, _, stderr := run(t, "create", "certificate", "two", "--cert", key, "--key", cert); code != 1 ||
		!strings.Contains(stderr, "key must be one private key in PEM") {
		t.Errorf("swapped files: %d %s", code, stderr)
	}
	do("delete", "certificate", created[1])

	agent, err := cloudapi.New(cloudapi.Options{Endpoint: s.endpoint, Token: cloudapi.StaticToken("open-edge")})
	if err != nil {
		t.Fatal(err)
	}
	edge, err := agent.RegisterEdge(t.Context(), cloudv1.EdgeSpec{Name: "edge-1", Token: strings.Repeat("x", 26)}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("edge "+edge.ID+" is draining\n", do("drain", "edge", edge.ID)); d != "" {
		t.Error(d)
	}
	if out := do("get", "edges"); !strings.Contains(out, "edge-1   draining") {
		t.Errorf("edges: %s", out)
	}
	do("drain", "edge", edge.ID, "--end")
	do("delete", "edge", edge.ID)
}

func TestGet(t *testing.T) {
	s := startServer(t, t.TempDir())
	t.Setenv("MYCLOUD_ENDPOINT", s.endpoint)
	t.Setenv("MYCLOUD_TOKEN", s.token)
	get := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := run(t, args...)
		if code != 0 || stderr != "" {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
		return stdout
	}
	if d := cmp.Diff("instance i-node-1 is stopped\n", get("stop", "instance", "i-node-1")); d != "" {
		t.Error(d)
	}
	get("delete", "instance", "i-node-2")
	get("start", "instance", "i-node-1")
	lines := strings.Split(strings.TrimSpace(get("get", "instances")), "\n")
	if len(lines) != 4 || strings.Join(strings.Fields(lines[0]), " ") != "ID HOSTNAME STATE TYPE ZONE ADDRESSES" ||
		!strings.HasPrefix(lines[1], "i-node-1   node-1     running") {
		t.Errorf("instances:\n%s", strings.Join(lines, "\n"))
	}
	var one struct {
		ID    string `json:"id"`
		State string `json:"state"`
	}
	if err := json.Unmarshal([]byte(get("get", "instance", "i-node-2", "-o", "json")), &one); err != nil {
		t.Fatal(err)
	}
	if one.ID != "i-node-2" || one.State != "deleted" {
		t.Errorf("the tombstone: %+v", one)
	}
	// The machine is rebuilt under its old name.
	rebuilt := get("create", "instance", "node-2", "--type", "m1.medium", "--zone", "eu-1b", "--address", "10.0.0.12")
	if !strings.HasPrefix(rebuilt, "instance i-") || strings.Contains(rebuilt, "i-node-2") {
		t.Errorf("created: %s", rebuilt)
	}
	if yaml := get("get", "zones", "-o", "yaml"); !strings.Contains(yaml, "- created_at:") ||
		!strings.Contains(yaml, "id: eu-1c") {
		t.Errorf("YAML:\n%s", yaml)
	}
	for _, kind := range []string{"load-balancers", "node-groups", "routes", "route-tables", "volumes", "volume-types", "regions", "instance-types", "jobs", "edges", "certificates"} {
		if out := get("get", kind); !strings.HasPrefix(out, "ID") {
			t.Errorf("%s: %q", kind, out)
		}
	}
	if d := cmp.Diff([]string{"ADDRESS", "STATE", "LOAD-BALANCER", "SINCE", "HELD-BY"}, strings.Fields(get("get", "addresses"))); d != "" {
		t.Error(d)
	}
	if out := get("openapi"); !strings.Contains(out, "openapi: 3.1.0") {
		t.Error("no OpenAPI document")
	}
	if out := get("version"); !strings.Contains(out, "commit") {
		t.Errorf("version: %q", out)
	}
}
