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

	"quaymaster.dev/test/benchadmission/machine"
	"quaymaster.dev/test/env"
	"quaymaster.dev/test/process"
)

const (
	// startLimit bounds the start of a webhook.
	startLimit = time.Minute
	// startPause is the interval between attempts to call a starting webhook.
	startPause = 500 * time.Microsecond
	// settle is how long a webhook is left alone before its memory and CPU time count as those of an idle one.
	settle   = 3 * time.Second
	stopTime = 15 * time.Second
)

// server is a webhook in its own process.
type server struct {
	endpoint
	program string // path
	args    []string
	path    string // of the webhook that is called to measure the start
	*process.Process

	starts       []time.Duration // from the start of the process to its first answer
	idle, loaded machine.Memory
	idleCPU      time.Duration // per second
	reviews      float64       // answered before loaded was read
}

// newServer prepares a webhook. args returns its arguments.
func (b *bench) newServer(ctx context.Context, name, program, path string, args func(e endpoint, cert, key string) ([]string, error)) (*server, error) {
	e, err := b.network.endpoint(name)
	if err != nil {
		return nil, err
	}
	if err := b.expose(ctx, e); err != nil {
		return nil, err
	}
	cert, key, err := b.ServingCertificate(name, e.hosts()...)
	if err != nil {
		return nil, err
	}
	s := &server{endpoint: e, path: path}
	if s.program, err = env.Program(filepath.FromSlash(program)); err != nil {
		return nil, err
	}
	s.args, err = args(e, cert, key)
	return s, err
}

// start starts the webhook several times and leaves the last one running.
func (b *bench) start(ctx context.Context, s *server) error {
	body, err := json.Marshal(sampleReview())
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.ca)
	for range b.options.starts {
		if s.Process != nil {
			if err := s.Stop(stopTime); err != nil {
				return err
			}
		}
		client := &http.Client{Timeout: startLimit, Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		}}
		begin := time.Now()
		if s.Process, err = b.Start(s.name, s.program, s.args...); err != nil {
			return err
		}
		for attempt := call(ctx, client, s.url(s.path), body); attempt != nil; attempt = call(ctx, client, s.url(s.path), body) {
			if err := s.Exit(); err != nil {
				return err
			}
			if time.Since(begin) > startLimit || ctx.Err() != nil {
				return fmt.Errorf("call %s: %w", s.name, attempt)
			}
			time.Sleep(startPause)
		}
		s.starts = append(s.starts, time.Since(begin))
	}
	return nil
}

// post sends a review and returns the status and the body of the response.
func post(ctx context.Context, client *http.Client, url string, body []byte) (status int, text []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

// call sends a review over a new connection. It fails unless the webhook allows it.
func call(ctx context.Context, client *http.Client, url string, body []byte) error {
	status, text, err := post(ctx, client, url+"?timeout=3s", body)
	if err != nil {
		return err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil {
		return fmt.Errorf("status %d: %s", status, text)
	}
	if status != http.StatusOK || review.Response == nil || !review.Response.Allowed {
		return fmt.Errorf("status %d, not allowed: %s", status, text)
	}
	return nil
}

// rest reads memory and CPU time of webhooks that receive no calls.
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
	begin := time.Now()
	if err := sleep(ctx, b.options.idle); err != nil {
		return err
	}
	for _, s := range b.servers {
		used, err := machine.CPU(s.PID())
		errs = append(errs, err)
		s.idleCPU = time.Duration(float64(used-before[s]) / time.Since(begin).Seconds())
		s.idle, err = machine.MemoryOf(s.PID())
		errs = append(errs, err)
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
