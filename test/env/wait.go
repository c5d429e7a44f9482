package env

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"quaymaster.dev/test/process"
)

// pollInterval is how often a condition is looked at again.
const pollInterval = 50 * time.Millisecond

// FreePort returns a TCP port of the loopback interface that nothing listens on at the moment.
func FreePort() (int, error) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, fmt.Errorf("choose a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// Poll calls check until it returns nil. When the context ends first, the error names what was waited for and the
// last answer of check; when a process the check depends on ends, the error quotes its log.
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
			last = err // one that is not merely about the end of the context
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

// probe answers whether a health endpoint says 200. Certificates are not verified: probes carry no secret, and
// some servers sign their own.
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
