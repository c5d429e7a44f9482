package plan

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestReadOnly: whatever the controllers' code does, a plan sends only reads to the API server.
func TestReadOnly(t *testing.T) {
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = append(sent, r.Method) }))
	defer server.Close()
	client := &http.Client{Transport: readOnly(http.DefaultTransport)}
	for method, sends := range map[string]bool{
		http.MethodGet: true, http.MethodHead: true, http.MethodPost: false, http.MethodPut: false, http.MethodPatch: false, http.MethodDelete: false,
	} {
		sent = nil
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(r)
		if err == nil {
			response.Body.Close()
		}
		if refused := errors.Is(err, errReadOnly); refused == sends || (len(sent) == 1) != sends {
			t.Errorf("%s: %v, sent %q", method, err, sent)
		}
	}
}
