package env

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Scrape returns the metrics of the webhooks.
func (w *Webhook) Scrape(t *testing.T) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.Metrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", response.Status)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Calls returns how many admission calls the webhooks have answered so far, according to their metrics.
func (w *Webhook) Calls(t *testing.T) int {
	t.Helper()
	sum := 0
	for line := range strings.Lines(w.Scrape(t)) {
		if !strings.HasPrefix(line, "quaymaster_webhook_requests_total{") {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndex(line, " "):]))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}
