package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/test/benchadmission/machine"
	"quaymaster.dev/test/benchadmission/results"
)

// TestCounter: requests are passed on; lookups are reads, and requests that the cloud holds are counted apart.
func TestCounter(t *testing.T) {
	passed := 0
	cloud := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
	defer cloud.Close()
	c, err := newCounter(cloud.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []struct{ method, target string }{
		{http.MethodGet, "/v1/instances?limit=500"},
		{http.MethodPost, "/v1/instances:lookup"},
		{http.MethodGet, "/v1/changes?since=1&wait=55"},
		{http.MethodPut, "/v1/load-balancers/lb-1"},
		{http.MethodPatch, "/v1/node-groups/ng-1/members"},
	} {
		c.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), request.method, request.target, nil))
	}
	got, _ := c.read()
	if got.reads != 2 || got.writes != 2 || got.lbs != 2 || got.polls != 1 || passed != 5 {
		t.Errorf("counted %+v, passed on %d", got, passed)
	}
	c.reset()
	if got, _ := c.read(); got.calls()+got.polls != 0 {
		t.Errorf("after a reset: %+v", got)
	}
}

// TestMarkdown: calls that were cut off are marked, and what was not measured has a dash.
func TestMarkdown(t *testing.T) {
	join := counted{tally: tally{reads: 3, writes: 20, polls: 9}, after: 12 * time.Second}
	r := &report{
		options: &options{command: "make bench-controllers"}, date: "2026-01-02", versions: []string{"Quaymaster v1.2.3"},
		measurements: [][]measurement{
			{{size: size{100, 100}, start: counted{tally: tally{reads: 6}}}},
			{{size: size{10000, 5000}, stock: true, start: counted{tally: tally{reads: 9000}, cut: true}, join: &join, cpu: 0.01234, memory: machine.Memory{Resident: 5 << 20}}},
		},
	}
	text := r.markdown()
	for _, want := range []string{
		"| Services / Nodes | 100 / 100 | 10000 / 5000 |", "| controllers | ours | stock |", "| start, nothing changed | 6 | > 9000 |",
		"| 500 Nodes join in 10 s | – | 23 (20 w) |", "| 10000 / 5000 | stock | 5 MiB | 0 MiB | 0.0123 |",
	} {
		if !strings.Contains(text+"\n", want+"\n") {
			t.Errorf("no line %q in:\n%s", want, text)
		}
	}
}

// TestPage: the page has room for the results.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/explanation/controllers-performance.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), results.Begin(target))
	if !strings.Contains(rest, results.End) {
		t.Errorf("docs/explanation/controllers-performance.md must contain %q and then %q", results.Begin(target), results.End)
	}
}
