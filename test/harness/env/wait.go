package env

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"

	"quaymaster.dev/test/harness/port"
	"quaymaster.dev/test/harness/process"
)

// pollInterval is the interval between checks of a condition.
const pollInterval = 50 * time.Millisecond

// FreePort returns a TCP port of the loopback interface that is currently unused.
func FreePort() (int, error) { return port.Free() }

// Poll calls check until it returns nil. If the context ends first, the error contains what and the last error of
// check; if one of the processes in needs ends first, the error quotes its log.
func Poll(ctx context.Context, what string, check func(context.Context) error, needs ...*process.Process) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // rather than an error that only reports the end of the context
		}
		for _, p := range needs {
			if exit := p.Exit(); exit != nil {
				return fmt.Errorf("wait for %s: %w", what, exit)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last answer: %w", what, ctx.Err(), last)
		case <-ticker.C:
		}
	}
}

// probe returns a check that a health endpoint responds with 200. It does not verify certificates: probes carry no
// secret, and some servers have self-signed certificates.
func probe(url string) func(context.Context) error {
	client := &http.Client{
		Timeout: 2 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		},
	}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
			return fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
		}
		return nil
	}
}
