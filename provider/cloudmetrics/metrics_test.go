package cloudmetrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider/cloudmetrics"
	"quaymaster.dev/provider/lookup"
	"quaymaster.dev/test/cloud"
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
		if _, err := client.Instance(t.Context(), id, cloudapi.ReadOptions{}); err != nil {
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
