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

	"golang.org/x/sync/errgroup"
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
		if !c.profiled {
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
	target, err := loadBalancers.target(b.Admin.Host, c.namespace)
	if err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error {
		created, failure := b.load(ctx, target, profileClients, profileTime)
		fmt.Fprintf(b.progress, "%d creates during the profiles\n", created.Requests)
		return failure
	})
	for name, url := range map[string]string{"webhook": "http://" + c.server.loopback(metricsPort), "kube-apiserver": b.Admin.Host} {
		running.Go(func() error {
			return b.fetchProfile(ctx, url, filepath.Join(b.options.profiles, c.name+"-"+name+".pprof"))
		})
	}
	return running.Wait()
}

// fetchProfile writes the CPU profile of a server to a file. The client authenticates to the API server; other servers
// do not ask.
func (b *bench) fetchProfile(ctx context.Context, url, file string) error {
	url += fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(profileTime.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := b.client.Do(request)
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
