package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"quaymaster.dev/test/benchadmission/machine"
)

// sample is the result of one measurement.
type sample struct {
	round         int
	configuration string
	workload      workload
	concurrency   int
	requests      int
	figures       map[figure]float64
	errors        []string
}

// warmUp is the least number of requests before each measurement.
const warmUp = 50

// rounds measures everything in every round, in random order.
func (b *bench) rounds(ctx context.Context, r *report) error {
	// The clients should take as little of the CPU as possible.
	debug.SetGCPercent(400)
	for round := range b.options.rounds {
		order := slices.Clone(b.configurations)
		shuffle(order)
		for _, c := range order {
			fmt.Fprintf(b.progress, "round %d of %d: %s\n", round+1, b.options.rounds, c.name)
			if err := b.enforce(ctx, c); err != nil {
				return err
			}
			if err := b.round(ctx, round, c, r); err != nil {
				return err
			}
			if err := b.lift(ctx, c); err != nil {
				return err
			}
		}
	}
	var errs []error
	for _, s := range b.servers {
		memory, err := machine.MemoryOf(s.PID())
		errs = append(errs, err)
		s.loaded = memory
	}
	return errors.Join(errs...)
}

func shuffle[T any](list []T) {
	//nolint:gosec // an order of measurements is no secret
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// round measures all workloads of a configuration.
func (b *bench) round(ctx context.Context, round int, c *configuration, r *report) error {
	for _, w := range slices.Concat([]workload{loadBalancers}, c.workloads) {
		concurrencies := slices.Clone(b.options.concurrency)
		shuffle(concurrencies)
		for _, concurrency := range concurrencies {
			s, err := b.sample(ctx, c, w, concurrency)
			if err != nil {
				return err
			}
			s.round = round
			r.samples = append(r.samples, s)
			if c.server != nil {
				c.server.reviews += s.figures[calls] * float64(s.requests)
			}
		}
	}
	return nil
}

// counters are read before and after a measurement.
type counters struct {
	webhook, apiServer time.Duration
	accepted           int
}

// sample measures one workload.
func (b *bench) sample(ctx context.Context, c *configuration, w workload, concurrency int) (*sample, error) {
	built, err := w.request(c.namespace)
	if err != nil {
		return nil, err
	}
	// Connections are open and caches are filled before counting. An attack may make this slow.
	begun := time.Now()
	b.load(ctx, built, concurrency, func(n int) bool {
		return n < max(warmUp, 2*concurrency) && time.Since(begun) < b.options.duration
	})
	// Reading the API server's metrics uses its CPU, which must not be counted.
	callsBefore, err := b.calls(ctx)
	if err != nil {
		return nil, err
	}
	before, err := b.counters(c)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	latencies, failures := b.load(ctx, built, concurrency, func(int) bool { return time.Since(begin) < b.options.duration })
	elapsed := time.Since(begin)
	after, err := b.counters(c)
	if err != nil {
		return nil, err
	}
	callsAfter, err := b.calls(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(latencies)
	n := float64(len(latencies))
	perRequest := func(d time.Duration) float64 { return float64(d.Microseconds()) / n }
	s := &sample{configuration: c.name, workload: w, concurrency: concurrency, requests: len(latencies), errors: failures}
	s.figures = map[figure]float64{
		p50: percentile(latencies, 50), p95: percentile(latencies, 95), p99: percentile(latencies, 99),
		throughput: n / elapsed.Seconds(), webhookCPU: perRequest(after.webhook - before.webhook),
		serverCPU: perRequest(after.apiServer - before.apiServer), calls: float64(callsAfter-callsBefore) / n,
		handshakes: 1000 * float64(after.accepted-before.accepted) / n,
	}
	if !b.options.isolated {
		// Other programs accept connections, too.
		s.figures[handshakes] = math.NaN()
	}
	return s, nil
}

func (b *bench) counters(c *configuration) (counters, error) {
	var (
		read counters
		err  error
	)
	if c.server != nil {
		if read.webhook, err = machine.CPU(c.server.PID()); err != nil {
			return read, err
		}
	}
	if read.apiServer, err = machine.CPU(b.apiServer.PID()); err != nil {
		return read, err
	}
	read.accepted, err = machine.Accepted()
	return read, err
}

// calls returns how many calls of webhooks the API server has completed. It includes failed calls.
func (b *bench) calls(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.Admin.Host+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := b.clients[0].Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	sum := 0
	for line := range bytes.Lines(text) {
		const metric = "apiserver_admission_webhook_request_total{"
		if !bytes.HasPrefix(line, []byte(metric)) {
			continue
		}
		fields := bytes.Fields(line)
		n, err := strconv.ParseFloat(string(fields[len(fields)-1]), 64)
		if err != nil {
			return 0, fmt.Errorf("read metric %s: %w", metric, err)
		}
		sum += int(n)
	}
	return sum, nil
}

// load sends requests from concurrent clients as long as more, which gets the number of requests sent so far, returns
// true. It returns the times of successful requests and describes the others.
func (b *bench) load(ctx context.Context, r request, concurrency int, more func(sent int) bool) ([]time.Duration, []string) {
	var (
		mu        sync.Mutex
		sent      int
		latencies []time.Duration
		failures  []string
		running   sync.WaitGroup
	)
	next := func() bool {
		mu.Lock()
		defer mu.Unlock()
		sent++
		return more(sent-1) && ctx.Err() == nil
	}
	for worker := range concurrency {
		running.Go(func() {
			client := b.clients[worker%len(b.clients)]
			var own []time.Duration
			var failed []string
			for next() {
				begin := time.Now()
				if err := send(client, b.Admin.Host, r); err != nil {
					failed = append(failed, err.Error())
				} else {
					own = append(own, time.Since(begin))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			latencies, failures = append(latencies, own...), append(failures, failed...)
		})
	}
	running.Wait()
	return latencies, failures
}

func send(client *http.Client, host string, r request) error {
	built, err := r.build(host)
	if err != nil {
		return err
	}
	response, err := client.Do(built)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != r.status {
		err = fmt.Errorf("status %s: %s", response.Status, text)
	}
	return err
}
