// Package replicas_test tests servers of the reference cloud that share a state in etcd, while they and the members of etcd
// fail.
package replicas_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/test/harness/env"
	etcdtest "quaymaster.dev/test/harness/env/etcd"
	"quaymaster.dev/test/harness/process"
)

var (
	runs = flag.Int("runs", 2, "number of histories to check")
	// former makes one of the servers another version.
	former = flag.String("former", "", "path of the program of a former version, for one of three servers")
	seed   = flag.Uint64("seed", 1, "beginning of the random numbers that choose operations and faults")
)

const (
	token = "sesame"
	// clients change objects, each of which has its history.
	clients, objects = 20, 5
	// faultTime is how long faults happen in a run.
	faultTime = 6 * time.Second
	// attemptLimit is how long a client waits for an answer.
	attemptLimit = 3 * time.Second
	startLimit   = time.Minute
)

// inventory has enough addresses for all runs.
const inventory = `
regions:
- id: eu-1
zones:
- {id: eu-1a, region: eu-1}
address_pools:
- {scheme: public, cidr: 10.64.0.0/12}
`

// replica is a server that shares the state.
type replica struct {
	*process.Process

	endpoint, audit string
	spec            process.Spec
}

// site is three servers on three members of etcd.
type site struct {
	t        *testing.T
	etcd     *etcdtest.Cluster
	replicas []*replica
	http     *http.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	program, err := env.Program("mycloud")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, etcd: etcdtest.Start(t, 3), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inventoryFile, tokenFile := file("inventory.yaml", inventory), file("token", token)
	edges := file("edge-token", edgeToken)
	key := file("key", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	for i := range 3 {
		port, err := env.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("replica-%d", i)
		audit, program := filepath.Join(dir, name+".audit"), program
		if i == 1 && *former != "" {
			program = *former
		}
		r := &replica{endpoint: fmt.Sprintf("http://127.0.0.1:%d", port), audit: audit, spec: process.Spec{
			Name: name, Path: program, LogDir: dir, Args: []string{
				"serve", "--listen=127.0.0.1:" + strconv.Itoa(port), "--data-dir=" + filepath.Join(dir, name),
				"--store=etcd://" + strings.Join(s.etcd.Endpoints(), ",") + "/cloud", "--inventory=" + inventoryFile,
				"--token-file=" + tokenFile, "--encryption-key-file=" + key, "--member-network=10.0.0.0/24",
				"--edge-token-file=" + edges,
			},
		}}
		if program != *former {
			r.spec.Args = append(r.spec.Args, "--audit-log-file="+audit)
		}
		s.start(r)
		t.Cleanup(func() { r.Kill() })
		s.replicas = append(s.replicas, r)
	}
	s.awaitReady()
	return s
}

func (s *site) start(r *replica) {
	p, err := process.Start(r.spec)
	if err != nil {
		s.t.Error(err)
		return
	}
	r.Process = p
}

// awaitReady waits until all servers are ready; one that has ended, because etcd did not answer, starts again.
func (s *site) awaitReady() {
	s.t.Helper()
	deadline := time.Now().Add(startLimit)
	for _, r := range s.replicas {
		for {
			if r.Exit() != nil {
				s.start(r)
			}
			status, _, err := s.send(r, http.MethodGet, "/readyz", nil)
			if err == nil && status == http.StatusOK {
				break
			}
			if time.Now().After(deadline) {
				s.t.Fatalf("%s is not ready: %d, %v\n%s", r.spec.Name, status, err, process.Tail(r.Log(), 20))
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// send sends one request, and does not repeat it.
func (s *site) send(r *replica, method, path string, body any, headers ...string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), attemptLimit)
	defer cancel()
	raw, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	if body == nil {
		raw = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, r.endpoint+path, bytes.NewReader(raw))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// input is an operation on a register: a read, or a write under the condition of the value read before.
type input struct {
	object        int
	write         bool
	expect, value string
}

// output is its result.
type output struct {
	value string
	// failed is true if the value was another one, and unknown if the answer was lost.
	failed, unknown bool
}

// register is what a linearizable object does.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		all := make([][]porcupine.Operation, objects)
		for _, o := range history {
			i := o.Input.(input).object
			all[i] = append(all[i], o)
		}
		return all
	},
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		i, o := in.(input), out.(output)
		switch {
		case !i.write:
			return state == o.value, state
		case o.unknown && state == i.expect:
			// If it never took effect, it comes last.
			return true, i.value
		case o.unknown:
			return true, state
		case o.failed:
			return state != i.expect, state
		}
		return state == i.expect, i.value
	},
	Equal:             func(a, b any) bool { return a == b },
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
}

// history records what clients see.
type history struct {
	mu         sync.Mutex
	start      time.Time
	operations []porcupine.Operation
	// addresses has the load balancer of each address, and created all acknowledged ones.
	addresses map[string]string
	created   map[string]bool
	answered  int
}

func (h *history) add(client int, in input, out output, call time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := time.Since(h.start).Nanoseconds()
	if out.unknown {
		end = time.Hour.Nanoseconds()
	} else {
		h.answered++
	}
	h.operations = append(h.operations, porcupine.Operation{
		ClientId: client, Input: in, Output: out, Call: call.Sub(h.start).Nanoseconds(), Return: end,
	})
}

// TestLinearizable checks histories of concurrent clients while servers and members of etcd are killed and stopped.
func TestLinearizable(t *testing.T) {
	s := newSite(t)
	random := rand.New(rand.NewPCG(*seed, 0))
	for run := range *runs {
		if !t.Run(strconv.Itoa(run), func(t *testing.T) { s.run(t, run, random.Uint64()) }) {
			return
		}
	}
}

func (s *site) run(t *testing.T, run int, seed uint64) {
	t.Helper()
	ids := make([]string, objects)
	for i := range objects {
		status, body, err := s.send(s.replicas[0], http.MethodPost, "/v1/node-groups", group(run, i, ""))
		if err != nil || status != http.StatusCreated {
			t.Fatalf("create node group: %d %s %v", status, body, err)
		}
		ids[i] = decode[cloudv1.NodeGroup](t, body).ID
	}
	h := &history{start: time.Now(), addresses: map[string]string{}, created: map[string]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() { s.change(ctx, t, h, run, c, ids, rand.New(rand.NewPCG(seed, uint64(c)))) })
	}
	wg.Go(func() { s.create(ctx, t, h, run) })
	wg.Go(func() { s.watch(ctx, t) })
	s.fail(rand.New(rand.NewPCG(seed, clients)))
	s.awaitReady()
	time.Sleep(time.Second)
	stop()
	wg.Wait()
	result, info := porcupine.CheckOperationsVerbose(register, h.operations, time.Minute)
	if result != porcupine.Ok {
		file := filepath.Join(t.ArtifactDir(), "history.html")
		t.Errorf("the history is %s: see %s; %v", result, file, porcupine.VisualizePath(register, info, file))
	}
	t.Logf("%d operations, %d answered; %d load balancers", len(h.operations), h.answered, len(h.created))
	if h.answered < clients*objects {
		t.Errorf("only %d operations were answered", h.answered)
	}
	for id := range h.created {
		status, _, err := s.send(s.replicas[0], http.MethodGet, "/v1/load-balancers/"+id, nil)
		if err != nil || status != http.StatusOK {
			t.Errorf("load balancer %s was acknowledged, and is lost: %d %v", id, status, err)
		}
	}
}

func group(run, object int, value string) cloudv1.NodeGroupSpec {
	return cloudv1.NodeGroupSpec{Name: fmt.Sprintf("run-%d-%d", run, object), Tags: map[string]string{"value": value}}
}

// change reads and writes random objects on random servers.
func (s *site) change(ctx context.Context, t *testing.T, h *history, run, client int, ids []string, random *rand.Rand) {
	t.Helper()
	for n := 0; ctx.Err() == nil; n++ {
		object, r := random.IntN(objects), s.replicas[random.IntN(len(s.replicas))]
		path := "/v1/node-groups/" + ids[object]
		call := time.Now()
		status, body, err := s.send(r, http.MethodGet, path, nil)
		if err != nil || status == http.StatusServiceUnavailable {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if status != http.StatusOK {
			t.Errorf("read: %d %s", status, body)
			return
		}
		g := decode[cloudv1.NodeGroup](t, body)
		was := g.Tags["value"]
		h.add(client, input{object: object}, output{value: was}, call)
		if random.IntN(2) == 0 {
			continue
		}
		in := input{object: object, write: true, expect: was, value: fmt.Sprintf("%d-%d", client, n)}
		r = s.replicas[random.IntN(len(s.replicas))]
		call = time.Now()
		status, body, err = s.send(r, http.MethodPut, path, group(run, object, in.value), "If-Match", g.Revision)
		switch {
		case err != nil || status == http.StatusServiceUnavailable:
			h.add(client, in, output{unknown: true}, call)
		case status == http.StatusOK:
			h.add(client, in, output{}, call)
		case status == http.StatusPreconditionFailed:
			h.add(client, in, output{failed: true}, call)
		default:
			t.Errorf("write: %d %s", status, body)
			return
		}
	}
}

// create creates load balancers. No address may belong to two.
func (s *site) create(ctx context.Context, t *testing.T, h *history, run int) {
	t.Helper()
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("run-%d-%d", run, n)
		body := map[string]any{"name": name, "scheme": "public", "listeners": []any{}, "pools": []any{}}
		// The key makes a creation take effect once, whichever server gets it.
		for try := 0; ctx.Err() == nil; try++ {
			status, raw, err := s.send(s.replicas[(n+try)%len(s.replicas)], http.MethodPost, "/v1/load-balancers", body, "Idempotency-Key", name)
			if err != nil || status == http.StatusServiceUnavailable || status == http.StatusConflict && bytes.Contains(raw, []byte("in progress")) {
				time.Sleep(50 * time.Millisecond)
				continue
			}
			if status != http.StatusCreated {
				t.Errorf("create load balancer: %d %s", status, raw)
				return
			}
			lb := decode[cloudv1.LoadBalancer](t, raw)
			for _, v := range lb.VIPs {
				if other, taken := h.addresses[v.Address]; taken {
					t.Errorf("%s has the address of %s: %s", lb.ID, other, v.Address)
				}
				h.addresses[v.Address] = lb.ID
			}
			h.created[lb.ID] = true
			break
		}
	}
}

// watch follows changes through all servers. Revisions must not go back, and must be known to all servers.
func (s *site) watch(ctx context.Context, t *testing.T) {
	t.Helper()
	since, last := "", uint64(0)
	for n := 0; ctx.Err() == nil; n++ {
		r := s.replicas[n%len(s.replicas)]
		path := "/v1/meta"
		if since != "" {
			path = "/v1/changes?wait=1&since=" + since
		}
		status, body, err := s.send(r, http.MethodGet, path, nil)
		if err != nil || status == http.StatusServiceUnavailable {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if status != http.StatusOK {
			t.Errorf("changes after %s: %d %s", since, status, body)
			return
		}
		since = decode[struct {
			Revision string `json:"revision"`
		}](t, body).Revision
		number, _, _ := strings.Cut(since, ".")
		now, err := strconv.ParseUint(number, 10, 64)
		if err != nil || now < last {
			t.Errorf("revision %s after %d: %v", since, last, err)
			return
		}
		last = now
	}
}

// fail lets a server or a member of etcd fail, and then the next one.
func (s *site) fail(random *rand.Rand) {
	for end := time.Now().Add(faultTime); time.Now().Before(end); {
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
		outage := time.Duration(200+random.IntN(1500)) * time.Millisecond
		r, m := s.replicas[random.IntN(3)], s.etcd.Members[random.IntN(3)]
		switch random.IntN(4) {
		case 0:
			r.Kill()
			time.Sleep(outage)
			s.start(r)
		case 1:
			m.Kill()
			time.Sleep(outage)
			m.Start()
		case 2:
			pause(r.Process, outage)
		case 3:
			pause(m.Process, outage)
		}
	}
}

// pause stops a process for a while: it does not answer, and does not notice.
func pause(p *process.Process, d time.Duration) {
	_ = p.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	_ = p.Signal(syscall.SIGCONT)
}

func decode[T any](t *testing.T, raw []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Errorf("%s: %v", raw, err)
	}
	return v
}
