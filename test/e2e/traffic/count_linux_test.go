package traffic_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"quaymaster.dev/test/harness/edgenet"
)

// traffic is what passed for load balancers: connections of TCP and packets of UDP.
type traffic struct{ tcp, udp float64 }

// answers makes the client count what load balancers answer, and returns the count: connections accepted and packets.
func (w *world) answers() func() traffic {
	w.Helper()
	run := func(args ...string) string {
		out, err := w.client.Run(w.Context(), "nft", args...)
		w.must(err)
		return out
	}
	run("-f", w.file("answers.nft", `table ip answers {
	counter answered_tcp { }
	counter answered_udp { }
	chain prerouting {
		type filter hook prerouting priority raw; policy accept;
		ip saddr `+pool+` tcp flags & (syn | ack) == syn | ack counter name "answered_tcp"
		ip saddr `+pool+` meta l4proto udp counter name "answered_udp"
	}
}
`))
	return func() traffic {
		var listed struct {
			Objects []struct {
				Counter *struct {
					Name    string  `json:"name"`
					Packets float64 `json:"packets"`
				} `json:"counter"`
			} `json:"nftables"`
		}
		w.must(json.Unmarshal([]byte(run("-j", "list", "counters", "table", "ip", "answers")), &listed))
		var sum traffic
		for _, o := range listed.Objects {
			switch {
			case o.Counter == nil:
			case o.Counter.Name == "answered_tcp":
				sum.tcp = o.Counter.Packets
			case o.Counter.Name == "answered_udp":
				sum.udp = o.Counter.Packets
			}
		}
		return sum
	}
}

// sampler adds up what edges let through, of listeners that have since been deleted, too.
type sampler struct {
	mu    sync.Mutex
	last  map[string]float64
	total map[string]traffic
	err   error
}

// sample reads the metrics of the edges until the test ends.
func (w *world) sample() *sampler {
	s := &sampler{last: map[string]float64{}, total: map[string]traffic{}}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	for _, e := range w.edges {
		done.Go(func() {
			for ctx.Err() == nil {
				err := s.read(ctx, e)
				s.mu.Lock()
				s.err = err
				s.mu.Unlock()
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	w.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return s
}

func (s *sampler) read(ctx context.Context, edge *edgenet.Machine) error {
	response, err := get(ctx, edge, "http://127.0.0.1:9127/metrics")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return fmt.Errorf("metrics of %s: %w", edge.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, metric := range families["mycloud_edge_accepted_total"].GetMetric() {
		s.add(edge.Name, metric)
	}
	return nil
}

func (s *sampler) add(edge string, metric *dto.Metric) {
	key, listener := edge, ""
	for _, label := range metric.GetLabel() {
		key += "\n" + label.GetName() + "=" + label.GetValue()
		if label.GetName() == "listener" {
			listener = label.GetValue()
		}
	}
	value := metric.GetCounter().GetValue()
	grown := value - s.last[key]
	if grown < 0 { // the listener was deleted and created again
		grown = value
	}
	s.last[key] = value
	sum := s.total[edge]
	if strings.HasPrefix(listener, "udp") {
		sum.udp += grown
	} else {
		sum.tcp += grown
	}
	s.total[edge] = sum
}

// sum returns what all edges let through since the start.
func (s *sampler) sum(t *testing.T) traffic {
	t.Helper()
	// The agents read their counters twice per second.
	time.Sleep(2 * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		t.Fatalf("sample: %v", s.err)
	}
	var sum traffic
	for edge, part := range s.total {
		t.Logf("%s: %.0f connections, %.0f packets of UDP", edge, part.tcp, part.udp)
		sum.tcp += part.tcp
		sum.udp += part.udp
	}
	return sum
}
