package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"quaymaster.dev/test/harness/env"
)

// answers gets a page from the load balancer and offers one listener more than its limit.
func (d *demonstration) answers(t *testing.T) {
	if missing := lacking(); missing != "" {
		t.Skipf("load balancers do not answer, because this machine lacks %s", missing)
	}
	address := d.service(t).Status.LoadBalancer.Ingress[0].IP
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	env.Eventually(t, 10*time.Second, "an answer", func(context.Context) error {
		return d.hello(client, "http://"+address+"/")
	})
	// More than 100 connections within a second, but never more than what that time allows.
	const offered, limit = 300, 100
	var mu sync.Mutex
	var asking sync.WaitGroup
	served, start := 0, time.Now()
	for range offered {
		asking.Go(func() {
			if d.hello(client, "http://"+address+":8443/") == nil {
				mu.Lock()
				defer mu.Unlock()
				served++
			}
		})
	}
	asking.Wait()
	if allowed := limit * (2 + int(time.Since(start).Seconds())); served == 0 || served > allowed {
		t.Errorf("%d of %d connections were served within %s, want at most %d", served, offered, time.Since(start), allowed)
	}
}

// hello asks for a page of a backend.
func (d *demonstration) hello(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && !strings.HasPrefix(string(body), "hello ") {
		err = fmt.Errorf("got %s: %s", response.Status, body)
	}
	return err
}
