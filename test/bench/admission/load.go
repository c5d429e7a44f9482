package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	vegeta "github.com/tsenart/vegeta/v12/lib"

	"quaymaster.dev/test/bench/admission/machine"
	"quaymaster.dev/test/bench/admission/results"
)

// rounds measures everything in every round, in random order.
func (b *bench) rounds(ctx context.Context) error {
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
			if err := b.round(ctx, c); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if err := b.lift(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func shuffle[T any](list []T) {
	//nolint:gosec // an order of measurements is no secret
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// round measures all workloads of a configuration, and then the memory of its webhook.
func (b *bench) round(ctx context.Context, c *configuration) error {
	for _, w := range slices.Concat([]workload{loadBalancers}, c.workloads) {
		concurrencies := slices.Clone(b.options.concurrency)
		shuffle(concurrencies)
		for _, clients := range concurrencies {
			s, err := b.sample(ctx, c, w, clients)
			if err == nil {
				err = s.failure
			}
			if err != nil {
				return fmt.Errorf("%s by %d clients: %w", w, clients, err)
			}
			results.Write(b.out, fmt.Sprintf("%s/admission=%s/clients=%d", w, c.name, clients), s.Requests, s.figures...)
		}
	}
	if c.server == nil {
		return nil
	}
	memory, err := machine.MemoryOf(c.server.PID())
	if err != nil {
		return err
	}
	results.Write(b.out, "Loaded/admission="+c.server.name, 1, results.Memory(memory)...)
	return nil
}

// sample is the result of one measurement.
type sample struct {
	*vegeta.Metrics
	// failure is that of a failed request, if there was one.
	failure error
	figures []results.Value
}

// sample measures one workload.
func (b *bench) sample(ctx context.Context, c *configuration, w workload, clients int) (*sample, error) {
	target, err := w.target(b.Admin.Host, c.namespace)
	if err != nil {
		return nil, err
	}
	// Connections are open and caches are filled before counting.
	_, _ = b.load(ctx, target, clients, b.options.duration/2)
	// Reading the API server's metrics uses its CPU, which must not be counted.
	callsBefore, err := b.calls(ctx)
	if err != nil {
		return nil, err
	}
	before, err := b.counters(c)
	if err != nil {
		return nil, err
	}
	s := &sample{}
	s.Metrics, s.failure = b.load(ctx, target, clients, b.options.duration)
	after, err := b.counters(c)
	if err != nil {
		return nil, err
	}
	callsAfter, err := b.calls(ctx)
	if err != nil {
		return nil, err
	}
	n := float64(s.Requests)
	s.figures = []results.Value{
		results.Seconds(s.Latencies.P50, "p50-sec"),
		results.Seconds(s.Latencies.P95, "p95-sec"),
		results.Seconds(s.Latencies.P99, "p99-sec"),
		{Number: s.Throughput, Unit: "requests/s"},
		{Number: (after.apiServer - before.apiServer).Seconds() / n, Unit: "apiserver-cpu-sec/op"},
		{Number: (callsAfter - callsBefore) / n, Unit: "calls/op"},
		{Number: (after.accepted - before.accepted) / n, Unit: "handshakes/op"},
	}
	if c.server != nil {
		s.figures = append(s.figures, results.Value{Number: (after.webhook - before.webhook).Seconds() / n, Unit: "webhook-cpu-sec/op"})
	}
	return s, ctx.Err()
}

// load sends requests from concurrent clients, each of which sends one at a time. The error is that of a failed request.
func (b *bench) load(ctx context.Context, target vegeta.Target, clients int, duration time.Duration) (*vegeta.Metrics, error) {
	attacker := vegeta.NewAttacker(vegeta.Client(b.client), vegeta.Workers(uint64(clients)), vegeta.MaxWorkers(uint64(clients)))
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()
	var failure error
	metrics := &vegeta.Metrics{}
	// Without a rate, each worker sends as soon as it has an answer.
	for result := range attacker.Attack(vegeta.NewStaticTargeter(target), vegeta.ConstantPacer{}, duration, "") {
		metrics.Add(result)
		if result.Error != "" {
			failure = fmt.Errorf("%s: %s", result.Error, result.Body)
		}
	}
	metrics.Close()
	return metrics, failure
}

// counters are read before and after a measurement.
type counters struct {
	webhook, apiServer time.Duration
	accepted           float64
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
func (b *bench) calls(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.Admin.Host+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := b.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, metric := range families["apiserver_admission_webhook_request_total"].GetMetric() {
		sum += metric.GetCounter().GetValue()
	}
	return sum, nil
}
