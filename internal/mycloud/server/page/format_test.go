package page

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/mycloud/server/history"
)

func TestFormats(t *testing.T) {
	const thin = "\u202f"
	for want, got := range map[string]string{
		"now": ago(time.Second), "59 s ago": ago(59 * time.Second), "119 s ago": ago(119 * time.Second), "2 minutes ago": ago(2 * time.Minute),
		"1 hour": span(time.Hour + time.Minute), "23 hours": span(24*time.Hour - 1), "1 day": span(30 * time.Hour), "9 days": span(9*24*time.Hour + 1),
		"0": number(0), "<0.01": number(.001), "0.12": number(.123), "12.3": number(12.34), "1" + thin + "234": number(1234.4),
		"999": count(999), "1" + thin + "000": count(1000), "12" + thin + "345" + thin + "678": count(uint64(12345678)),
		"0 bit/s": bits(0), "800 bit/s": bits(100), "8.0 kbit/s": bits(1000), "1.2 Gbit/s": bits(1.5e8),
		"1 change": plural(1, "change"), "2 addresses": plural(2, "address"), "0 changes": plural(0, "change"),
		"/ui/edges/a%2Fb%3Fc": link("edges", "a/b?c"), "pending create": label("pending_create"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestSparkline: the newest step is at the right end, and the highest figure at the top.
func TestSparkline(t *testing.T) {
	s := sparkline(history.Series{Points: []history.Rates{{}, {Accepted: 5}, {Accepted: 10, Refused: 2.5}}})
	if d := cmp.Diff([]string{"115.9,23.0", "118.0,12.0", "120.0,1.0"}, strings.Fields(s.Accepted)); d != "" {
		t.Errorf("accepted (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"115.9,23.0", "118.0,23.0", "120.0,17.5"}, strings.Fields(s.Refused)); d != "" {
		t.Errorf("refused (-want +got):\n%s", d)
	}
	if s := sparkline(history.Series{}); s.Accepted != "" || s.Refused != "" {
		t.Errorf("without traffic: %+v", s)
	}
}
