package adversarial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
)

// Victim is an API server that needs answers during an attack.
type Victim struct {
	target Target
	client *http.Client
}

// NewVictim returns a victim that connects like an API server.
func NewVictim(t Target) *Victim {
	dialer := &net.Dialer{Timeout: 3 * time.Second}
	if t.From != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(t.From)}
	}
	return &Victim{target: t, client: &http.Client{
		// As long as an API server waits with the chart's default.
		Timeout: 3 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: t.TLS, DialContext: dialer.DialContext, MaxIdleConnsPerHost: 25, IdleConnTimeout: 90 * time.Second,
		},
	}}
}

// Ask sends an AdmissionReview and returns an error unless the answer is a decision.
func (v *Victim) Ask(ctx context.Context, review []byte) error {
	url := "https://" + v.target.Address + v.target.Path + "?timeout=3s"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(review))
	if err != nil {
		return fmt.Errorf("ask for admission: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := v.client.Do(r)
	if err != nil {
		return fmt.Errorf("ask for admission: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("ask for admission: %w", err)
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &answer); err != nil || response.StatusCode != http.StatusOK || answer.Response == nil {
		return fmt.Errorf("ask for admission: no decision: %s: %.200s", response.Status, text)
	}
	return nil
}

// Reconnect closes the idle connections, so that the next request needs a new one.
func (v *Victim) Reconnect() { v.client.CloseIdleConnections() }
