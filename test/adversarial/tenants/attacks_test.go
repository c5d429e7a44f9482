package tenants_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// attacks returns all attacks. See the files that define them.
func attacks() []attack {
	return []attack{
		{name: "padded Services", run: padServices},
		{name: "padded claims", run: padClaims},
		{name: "padded policies", run: padPolicies},
		{name: "unusual encodings", run: encodeOddly},
		{name: "hostile creates", run: createHostile},
		{name: "6 loops of large dry runs", run: func(s *stage) { loop(s, 6) }},
		{name: "30 loops of large dry runs", run: func(s *stage) { loop(s, 30) }},
		{name: "20 stored policies with slow patterns", before: func(s *stage) { storePatterns(s, 20) }, run: usePatterns},
		{name: "200 stored policies with slow patterns", long: true, before: func(s *stage) { storePatterns(s, 200) }, run: usePatterns},
		{name: "stored policies of 1 MB", before: func(s *stage) { storePadded(s, size(45, 200)) }, run: usePatterns},
		{name: "policies that change all the time", run: churnPolicies},
		{name: "idle connections to health, metrics and webhooks", run: occupy},
		{name: "large bodies that stall", run: stallBodies},
		{name: "attacks on the server", run: attackServer},
		{name: "attacks on the server by HTTP/2", args: []string{"--enable-http2"}, run: attackHTTP2},
		{name: "quantities", run: sendQuantities},
		{name: "reviews from strangers", run: sendReviews},
		{name: "long strings in denials", run: denyLoudly},
		{name: "exported policies", run: measureExports},
	}
}

func TestAttacks(t *testing.T) {
	table := []string{tableHead}
	var idle []int64
	for _, a := range attacks() {
		if a.long && !*full {
			continue
		}
		t.Run(strings.ReplaceAll(a.name, " ", "-"), func(t *testing.T) {
			f := a.play(t)
			table, idle = append(table, f.String()), append(idle, f.idle)
		})
	}
	slices.Sort(idle)
	if len(idle) > 0 && idle[len(idle)/2] > idleLimit {
		t.Errorf("idle webhooks use %.1f MiB, more than %d MiB", float64(idle[len(idle)/2])/mebibyte, idleLimit/mebibyte)
	}
	text := strings.Join(table, "\n") + "\n"
	t.Log("\n" + text)
	if *figured != "" {
		if err := os.WriteFile(*figured, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
}
