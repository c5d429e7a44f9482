package status

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// counter counts how often a response begins.
type counter struct {
	http.ResponseWriter

	begun int
}

func (c *counter) WriteHeader(int) { c.begun++ }

// TestRecorder: a response begins once, with the first status.
func TestRecorder(t *testing.T) {
	t.Parallel()
	c := &counter{ResponseWriter: httptest.NewRecorder()}
	r := &Recorder{ResponseWriter: c}
	r.WriteHeader(http.StatusCreated)
	r.WriteHeader(499)
	if r.Status != http.StatusCreated || c.begun != 1 {
		t.Errorf("status %d, begun %d times", r.Status, c.begun)
	}
}
