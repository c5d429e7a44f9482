package cloudmetrics_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"quaymaster.dev/internal/cloudmetrics"
	"quaymaster.dev/internal/lookup"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/cloud"
)

// The metrics match the cloud's own count, and no label contains an id.
func TestMetricsOfCalls(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	metrics, err := cloudmetrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	c := cloud.Start(t, 0)
	client, err := cloudapi.New(
		cloudapi.Options{Endpoint: c.Endpoint, Token: cloudapi.StaticToken(cloud.Token), OnCall: metrics.Call},
	)
	if err != nil {
		t.Fatal(err)
	}
	volumes := lookup.New(lookup.Options{Cloud: client, OnLookup: metrics.Lookup})
	for _, id := range []string{"vol-data-1", "vol-data-1", "vol-none"} {
		_, _ = volumes.Volume(t.Context(), id)
	}
	for _, id := range []string{"i-node-1", "i-node-2"} {
		if _, err := client.Instance(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	metrics.Call(cloudapi.Call{Operation: "PUT load-balancers/{id}", Code: cloudapi.CallTimeout, Duration: time.Minute})

	want := `
# HELP quaymaster_cloud_lookups_total Lookups of volumes and volume types, by kind and by result: cached (hit), read from the cloud (miss) or unavailable.
# TYPE quaymaster_cloud_lookups_total counter
quaymaster_cloud_lookups_total{kind="volume",result="hit"} 1
quaymaster_cloud_lookups_total{kind="volume",result="miss"} 2
# HELP quaymaster_cloud_requests_total Requests to the cloud's API, by operation and by HTTP status or the reason why there is none.
# TYPE quaymaster_cloud_requests_total counter
quaymaster_cloud_requests_total{code="200",operation="GET instances/{id}"} 2
quaymaster_cloud_requests_total{code="200",operation="GET volumes/{id}"} 1
quaymaster_cloud_requests_total{code="404",operation="GET volumes/{id}"} 1
quaymaster_cloud_requests_total{code="timeout",operation="PUT load-balancers/{id}"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"quaymaster_cloud_requests_total", "quaymaster_cloud_lookups_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "quaymaster_cloud_request_duration_seconds"); n != 3 || err != nil {
		t.Errorf("%d histograms, %v; want one an operation", n, err)
	}
	if calls := c.Calls(); len(calls) != 4 {
		t.Errorf("the cloud counts %v", calls)
	}
}

// What delays requests is reported as it is when metrics are read.
func TestMetricsOfPace(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	metrics, err := cloudmetrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	c := cloud.Start(t, 0)
	client, err := cloudapi.New(cloudapi.Options{Endpoint: c.Endpoint, Token: cloudapi.StaticToken(cloud.Token)})
	if err != nil {
		t.Fatal(err)
	}
	if err := metrics.Pace(client.Pace); err != nil {
		t.Fatal(err)
	}
	c.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("RateLimit-Policy", `"write";q=100;w=60`)
		w.Header().Set("Retry-After", "3600")
		cloud.Problem(w, http.StatusServiceUnavailable, "unavailable")
		return true
	})
	for range 2 {
		_, _ = client.Instance(t.Context(), "i-node-1")
	}
	want := `
# HELP quaymaster_cloud_budget_remaining Requests that a class may send to the cloud at once; +Inf if the cloud advertises no quota.
# TYPE quaymaster_cloud_budget_remaining gauge
quaymaster_cloud_budget_remaining{class="drift"} +Inf
quaymaster_cloud_budget_remaining{class="nodes"} 9
quaymaster_cloud_budget_remaining{class="poll"} +Inf
quaymaster_cloud_budget_remaining{class="safety"} +Inf
quaymaster_cloud_budget_remaining{class="write"} 8
# HELP quaymaster_cloud_circuit_open 1 if requests of the operation are not sent because the cloud did not respond to the last ones, otherwise 0.
# TYPE quaymaster_cloud_circuit_open gauge
quaymaster_cloud_circuit_open{operation="GET instances/{id}"} 1
# HELP quaymaster_cloud_silence_seconds Time until requests are sent again, by the quota that they use, because the cloud asked to wait; 0 if it did not.
# TYPE quaymaster_cloud_silence_seconds gauge
quaymaster_cloud_silence_seconds{quota="read"} 0
quaymaster_cloud_silence_seconds{quota="write"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "quaymaster_cloud_budget_remaining",
		"quaymaster_cloud_circuit_open", "quaymaster_cloud_silence_seconds"); err != nil {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "quaymaster_cloud_postponed_requests_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := m.GetLabel()
			counted := labels[0].GetValue() == "poll" && labels[1].GetValue() == "circuit"
			if got := m.GetCounter().GetValue(); (got == 1) != counted {
				t.Errorf("%v: %v", labels, got)
			}
		}
	}
}
