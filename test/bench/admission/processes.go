package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"quaymaster.dev/test/adversarial"
	"quaymaster.dev/test/bench/admission/machine"
	"quaymaster.dev/test/bench/admission/results"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/process"
)

const (
	// starts is how often each webhook is started to measure the time to its first answer.
	starts = 7
	// startLimit bounds the start of a webhook.
	startLimit = time.Minute
	// startPause is the interval between attempts to call a starting webhook.
	startPause = 500 * time.Microsecond
	// settle is how long a webhook is left alone before its memory and CPU time count as those of an idle one.
	settle = 3 * time.Second
	// idle is how long the CPU time of idle webhooks is measured.
	idle     = 10 * time.Second
	stopTime = 15 * time.Second
)

// server is a webhook in its own process.
type server struct {
	endpoint
	program string // path
	args    []string
	path    string // of the webhook that is called to measure the start
	*process.Process
}

// newServer prepares a webhook. args returns its arguments.
func (b *bench) newServer(ctx context.Context, name, program, path string, args func(e endpoint, cert, key string) []string) (*server, error) {
	e, err := b.expose(ctx, name)
	if err != nil {
		return nil, err
	}
	cert, key, err := b.ServingCertificate(name, e.hosts()...)
	if err != nil {
		return nil, err
	}
	s := &server{endpoint: e, path: path, args: args(e, cert, key)}
	s.program, err = env.Program(filepath.FromSlash(program))
	return s, err
}

// caller returns a client without open connections that trusts the webhooks.
func (b *bench) caller(limit time.Duration) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.ca)
	return &http.Client{Timeout: limit, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
}

// start starts the webhook several times and leaves the last one running.
func (b *bench) start(ctx context.Context, s *server) (err error) {
	review := adversarial.Review(service("default", nil))
	for range starts {
		if s.Process != nil {
			if err := s.Stop(stopTime); err != nil {
				return err
			}
		}
		client := b.caller(startLimit)
		begin := time.Now()
		if s.Process, err = b.Start(s.name, s.program, s.args...); err != nil {
			return err
		}
		for attempt := allowed(ctx, client, s.url(s.path), review); attempt != nil; attempt = allowed(ctx, client, s.url(s.path), review) {
			if err := s.Exit(); err != nil {
				return err
			}
			if time.Since(begin) > startLimit || ctx.Err() != nil {
				return fmt.Errorf("call %s: %w", s.name, attempt)
			}
			time.Sleep(startPause)
		}
		results.Write(b.out, "Start/admission="+s.name, 1, results.Seconds(time.Since(begin), "sec/op"))
	}
	return nil
}

// post sends a review and returns the body of the response.
func post(ctx context.Context, client *http.Client, url string, review []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"?timeout=10s", bytes.NewReader(review))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// allowed fails unless the webhook allows a review.
func allowed(ctx context.Context, client *http.Client, url string, review []byte) error {
	text, err := post(ctx, client, url, review)
	if err != nil {
		return err
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &answer); err != nil || answer.Response == nil || !answer.Response.Allowed {
		return fmt.Errorf("not allowed: %s", text)
	}
	return nil
}

// rest measures memory and CPU time of webhooks that receive no calls.
func (b *bench) rest(ctx context.Context) error {
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	before := map[*server]time.Duration{}
	var errs []error
	for _, s := range b.servers {
		used, err := machine.CPU(s.PID())
		errs = append(errs, err)
		before[s] = used
	}
	if err := sleep(ctx, idle); err != nil {
		return err
	}
	for _, s := range b.servers {
		used, err := machine.CPU(s.PID())
		errs = append(errs, err)
		memory, err := machine.MemoryOf(s.PID())
		errs = append(errs, err)
		cpu := results.Value{Number: (used - before[s]).Seconds() / idle.Seconds(), Unit: "cpu-sec/s"}
		results.Write(b.out, "Idle/admission="+s.name, 1, append(results.Memory(memory), cpu)...)
	}
	return errors.Join(errs...)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
