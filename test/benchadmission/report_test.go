package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/test/benchadmission/machine"
	"quaymaster.dev/test/benchadmission/results"
)

func example() *report {
	webhook := &server{
		endpoint: endpoint{name: "quaymaster-webhook"}, starts: []time.Duration{20 * time.Millisecond, 40 * time.Millisecond},
		idle: machine.Memory{Resident: 30 << 20, Anonymous: 10 << 20, File: 20 << 20}, idleCPU: 100 * time.Microsecond,
		loaded: machine.Memory{Resident: 50 << 20, Anonymous: 30 << 20, File: 20 << 20}, reviews: 400,
	}
	least := &server{endpoint: endpoint{name: floor}, starts: []time.Duration{time.Millisecond}}
	r := &report{
		facts: machine.Facts{Processor: "a processor", Kernel: "Linux 6.1", Cores: 2, Memory: 24 << 30},
		date:  "2026-01-02", command: "make bench-admission", versions: []string{"Quaymaster v1.2.3", "etcd v3"},
		network: "through Services", rounds: 1, duration: time.Second, concurrency: []int{8}, others: 0.25,
		configurations: []*configuration{
			{name: none, about: "nothing"}, {name: floor, about: "little", server: least},
			{name: quaymaster, about: "Quaymaster", server: webhook},
		},
		servers: []*server{least, webhook},
	}
	add := func(name string, w workload, figures map[figure]float64) {
		r.samples = append(r.samples, &sample{
			configuration: name, workload: w, concurrency: 8, requests: 100, figures: figures,
		})
	}
	add(none, loadBalancers, map[figure]float64{p50: 1, p95: 2, p99: 4, throughput: 1000, serverCPU: 800})
	add(floor, loadBalancers, map[figure]float64{
		p50: 2, p95: 4, p99: 8, throughput: 600, serverCPU: 1200, webhookCPU: 800, calls: 2, handshakes: 5,
	})
	add(quaymaster, loadBalancers, map[figure]float64{
		p50: 1.8, p95: 4, p99: 9.6, throughput: 550, serverCPU: 1600, webhookCPU: 600, calls: 2, handshakes: 0,
	})
	for _, w := range []workload{clusterIPs, statusWrites} {
		add(none, w, map[figure]float64{p50: 1, p99: 4, throughput: 1000, serverCPU: 800})
		add(quaymaster, w, map[figure]float64{p50: 1.04, p99: 4, throughput: 990, serverCPU: 880, calls: 0.01})
	}
	return r
}

func TestMarkdown(t *testing.T) {
	const want = `Measured on 2026-01-02 by ` + "`make bench-admission`" + ` with Quaymaster v1.2.3, etcd v3, on 2 cores of a processor with 24 GiB and Linux 6.1.
The API server calls webhooks through Services.
1 interleaved rounds, 1s for each measurement, 700 requests, 0 errors. During the rounds, other processes used 25 % of the machine's CPU time.

| configuration | what decides on a Service |
|---|---|
| none | nothing |
| floor | little |
| quaymaster | Quaymaster |

### 8 concurrent clients

| configuration | p50 ms | p95 ms | p99 ms | creates/s | p50 ÷ none | creates/s ÷ none | p50 ÷ floor | p99 ÷ floor | webhook CPU, µs per create | ÷ floor | API server CPU, µs per create | ÷ none | calls per create | handshakes per 1000 creates |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| none | 1.00 | 2.00 | 4.00 | 1000 | 1.00 | 1.00 | 0.50 | 0.50 | – | – | 800 | 1.00 | 0 | 0 |
| floor | 2.00 | 4.00 | 8.00 | 600 | 2.00 | 0.60 | 1.00 | 1.00 | 800 | 1.00 | 1200 | 1.50 | 2.00 | 5.00 |
| quaymaster | 1.80 | 4.00 | 9.60 | 550 | 1.80 | 0.55 | 0.90 | 1.20 | 600 | 0.75 | 1600 | 2.00 | 2.00 | 0 |

### Requests that cause no call

The same requests with and without Quaymaster's webhook configurations.

| request | concurrent clients | p50 ms, none | p50 ms, quaymaster | p50 ÷ none | p99 ÷ none | requests/s ÷ none | API server CPU ÷ none | calls |
|---|---|---|---|---|---|---|---|---|
| ClusterIP creates | 8 | 1.00 | 1.04 | 1.04 | 1.00 | 0.99 | 1.10 | 0.01 |
| status writes | 8 | 1.00 | 1.04 | 1.04 | 1.00 | 0.99 | 1.10 | 0.01 |

### Processes

Resident memory with its anonymous and file-backed parts, certificate in files.

| webhook | start to first review, ms | RSS idle | RSS after load | reviews | CPU while idle, ms/s |
|---|---|---|---|---|---|
| floor | 1.00 | 0 MiB (0 MiB + 0 MiB) | 0 MiB (0 MiB + 0 MiB) | 0 | 0 |
| quaymaster-webhook | 30.0 | 30.0 MiB (10.0 MiB + 20.0 MiB) | 50.0 MiB (30.0 MiB + 20.0 MiB) | 400 | 0.10 |

### Goals

| goal | result | met |
|---|---|---|
| webhook CPU per create ÷ floor ≤ 0.75 | 0.75 at 8 | yes |
| p50 ÷ floor ≤ 1.00 | 0.90 at 8 | yes |
| p99 ÷ floor ≤ 1.10 | 1.20 at 8 | no |
| creates/s ÷ none ≥ 0.50 | 0.55 at 8 | yes |
| p50 of ClusterIP creates ÷ none ≤ 1.05 | 1.04 at 8 | yes |
| p50 of status writes ÷ none ≤ 1.05 | 1.04 at 8 | yes |
| calls per ClusterIP create and status write ≤ 0 | 0.01 at most | no |
| RSS idle in MiB of quaymaster ≤ 40.0 | 30.0 | yes |
| RSS after load in MiB of quaymaster ≤ 48.0 | 50.0 | no |
| start to first review in ms of quaymaster ≤ 30.0 | 30.0 | yes |
| CPU while idle in ms/s of quaymaster ≤ 0.20 | 0.10 | yes |`
	if diff := cmp.Diff(want, example().markdown()); diff != "" {
		t.Errorf("markdown() (-want +got):\n%s", diff)
	}
}

// The attacks of a run are reported with the worst results among the goals.
func TestMarkdownOfAttacks(t *testing.T) {
	r := example()
	r.attacks = []*attack{
		{
			name: "a large key", review: []byte("{}"), p50: []float64{1, 2, 9}, p99: []float64{3}, throughput: []float64{0.5},
			unhookedP99: []float64{2.5}, extra: 65 << 20, call: 20 * time.Millisecond,
		},
		{name: "slow headers", p50: []float64{1}, p99: []float64{1}, throughput: []float64{1}, failures: 3, extra: 1 << 20},
	}
	text := r.markdown()
	for _, want := range []string{
		"| a large key | 2.00 | 3.00 | 0.50 | 2.50 | 0 | + 65.0 MiB | 20.0 |\n",
		"| slow headers | 1.00 | 1.00 | 1.00 | – | 3 | + 1.00 MiB | – |\n",
		"| CPU for one hostile call in ms ≤ 50.0 | 20.0 at most | yes |\n",
		"| memory that attacks add in MiB ≤ 64.0 | 65.0 at most | no |\n",
		"| creates that fail during attacks ≤ 0 | 3.00 at most | no |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not contain %q:\n%s", want, text)
		}
	}
}

func TestFailed(t *testing.T) {
	r := example()
	if err := r.failed(); err != nil {
		t.Errorf("failed() = %v without errors", err)
	}
	r.samples[1].errors = []string{"status 429", "status 500"}
	err := r.failed()
	if err == nil || !strings.Contains(err.Error(), "2 requests failed") || !strings.Contains(err.Error(), "floor, LoadBalancer creates, concurrency 8: status 429") {
		t.Errorf("failed() = %v", err)
	}
}

func TestWritePage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n\n" + results.Begin(target) + "\n\nold\n\n" + results.End + "\n\nafter\n")
	if err := results.Write(file, target, "new\n"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n\n" + results.Begin(target) + "\n\nnew\n\n" + results.End + "\n\nafter\n"; string(text) != want {
		t.Errorf("the page is %q, want %q", text, want)
	}
	write("a page without markers\n")
	if err := results.Write(file, target, "new"); err == nil {
		t.Error("a page without markers was written")
	}
}

// The page of the documentation can be written.
func TestPageHasMarkers(t *testing.T) {
	text, err := os.ReadFile("../../docs/explanation/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), results.Begin(target))
	if !strings.Contains(rest, results.End) {
		t.Errorf("docs/explanation/performance.md must contain %q and then %q", results.Begin(target), results.End)
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-concurrency=1,8", "-only=" + quaymaster})
	if err != nil || !cmp.Equal(o.concurrency, []int{1, 8}) || !cmp.Equal(o.only, []string{quaymaster}) {
		t.Errorf("parse() = %+v, %v", o, err)
	}
	for _, arg := range []string{"-concurrency=0", "-concurrency=a", "-only=typo", "-via=typo", "-rounds=0", "-attack-rounds=-1", "-duration=0s", "extra"} {
		if _, err := parse([]string{arg}); err == nil {
			t.Errorf("parse(%s) returned no error", arg)
		}
	}
}
