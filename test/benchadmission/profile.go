package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const (
	// profileTime is the length of a CPU profile.
	profileTime = 15 * time.Second
	// profileClients is the number of concurrent clients during a profile.
	profileClients = 8
)

// profile writes CPU profiles of the API server and of every webhook that serves profiles, while LoadBalancer Services
// are created.
func (b *bench) profile(ctx context.Context) error {
	if err := os.MkdirAll(b.options.profiles, 0o750); err != nil {
		return err
	}
	for _, c := range b.configurations {
		if c.profiles == "" {
			continue
		}
		fmt.Fprintln(b.progress, "profiling", c.name)
		if err := b.enforce(ctx, c); err != nil {
			return err
		}
		if err := errors.Join(b.profileOf(ctx, c), b.lift(ctx, c)); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) profileOf(ctx context.Context, c *configuration) error {
	built, err := loadBalancers.request(c.namespace)
	if err != nil {
		return err
	}
	loading, stop := context.WithCancel(ctx)
	type outcome struct {
		latencies []time.Duration
		failures  []string
	}
	done := make(chan outcome, 1)
	go func() {
		latencies, failures := b.load(loading, built, profileClients, func(int) bool { return true })
		done <- outcome{latencies, failures}
	}()
	results := make(chan error, 2)
	for name, url := range map[string]string{"webhook": c.profiles, "kube-apiserver": b.Admin.Host} {
		file := filepath.Join(b.options.profiles, c.name+"-"+name+".pprof")
		go func() { results <- b.fetchProfile(ctx, url, file) }()
	}
	err = errors.Join(<-results, <-results)
	stop()
	o := <-done
	fmt.Fprintf(b.progress, "%d creates during the profiles\n", len(o.latencies))
	if len(o.failures) > 0 {
		err = errors.Join(err, fmt.Errorf("%d requests failed: %s", len(o.failures), o.failures[0]))
	}
	return err
}

// fetchProfile writes the CPU profile of a server to a file. The client authenticates to the API server; other servers
// do not ask.
func (b *bench) fetchProfile(ctx context.Context, url, file string) error {
	ctx, cancel := context.WithTimeout(ctx, profileTime+requestLimit)
	defer cancel()
	url += fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(profileTime.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := b.clients[len(b.clients)-1].Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: status %s: %s", url, response.Status, text)
	}
	return os.WriteFile(file, text, 0o600)
}
