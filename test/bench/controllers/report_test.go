package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"quaymaster.dev/test/bench/admission/machine"
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

// TestWrite: calls that were cut off are marked, and what was not measured has no line.
func TestWrite(t *testing.T) {
	m := measurement{
		size: size{1000, 500}, controllers: stock, start: counted{tally: tally{reads: 9000, writes: 3, lbs: 2, polls: 1}, cut: true},
		cpu: 0.25, memory: machine.Memory{Resident: 5 << 20, Anonymous: 1 << 20},
	}
	var text strings.Builder
	m.write(&text)
	for _, want := range []string{
		"BenchmarkStart/size=1000x500/controllers=stock\t1\t9003 calls\t3 writes\t2 lb-calls\t1 polls\t1 unfinished\n",
		"BenchmarkLabelNode/size=1000x500/controllers=stock\t1\t0 calls\t0 writes\t0 lb-calls\t0 polls\n",
		"BenchmarkIdle/size=1000x500/controllers=stock\t1\t5.24288e+06 resident-B\t1.04858e+06 anonymous-B\t0.25 cpu-sec/s\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no line %q in:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "JoinNodes") {
		t.Errorf("Nodes that did not join have a line:\n%s", text.String())
	}
}
