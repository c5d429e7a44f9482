package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/browser"
	"quaymaster.dev/test/harness/env"
)

// needsTraffic skips a step if the demonstration has left out traffic. What the machine lacks now says nothing: the routes of
// the demonstration itself are in the way of another one.
func (d *demonstration) needsTraffic(t *testing.T) {
	t.Helper()
	log, err := os.ReadFile(d.Log())
	if err != nil {
		t.Fatal(err)
	}
	if _, missing, ok := strings.Cut(string(log), "leaving out traffic, because this machine lacks "); ok {
		missing, _, _ = strings.Cut(missing, "\n")
		t.Skip("this machine lacks", missing)
	}
}

// answers gets a page from the load balancer and offers one listener more than its limit.
func (d *demonstration) answers(t *testing.T) {
	d.needsTraffic(t)
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

// showsTraffic logs in to the page of the cloud, as a browser does, and waits until the plots have the requests of answers and
// what the limit has refused.
func (d *demonstration) showsTraffic(t *testing.T) {
	d.needsTraffic(t)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: 10 * time.Second, Jar: jar}
	page := d.env["MYCLOUD_ENDPOINT"] + "/ui/"
	response, err := client.PostForm(page+"login", url.Values{"token": {d.env["MYCLOUD_TOKEN"]}, "next": {"/ui/load-balancers"}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || !strings.Contains(string(list), "dev-default-shop") {
		t.Fatalf("the page after the login: %v %s", err, list)
	}
	env.Eventually(t, time.Minute, "traffic in the plots", func(context.Context) error {
		response, err := client.Get(page + "series")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		var series struct {
			Step              float64
			Accepted, Refused []float64
		}
		if err := json.NewDecoder(response.Body).Decode(&series); err != nil {
			return err
		}
		accepted, refused := 0., 0.
		for i := range series.Accepted {
			accepted += series.Accepted[i] * series.Step
			refused += series.Refused[i] * series.Step
		}
		if accepted < 50 || refused < 50 {
			return fmt.Errorf("%.0f requests were accepted and %.0f refused", accepted, refused)
		}
		return nil
	})
}

var screenshots = flag.String("screenshots", "", "folder to keep screenshots of the page of the cloud in; a temporary one if empty")

// showsPage looks at the page in a browser while the load balancer has traffic.
func (d *demonstration) showsPage(t *testing.T) {
	d.needsTraffic(t)
	address := d.service(t).Status.LoadBalancer.Ingress[0].IP
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	asking.Go(func() {
		client := &http.Client{Timeout: 5 * time.Second}
		for ctx.Err() == nil {
			_ = d.hello(client, "http://"+address+"/")
			time.Sleep(20 * time.Millisecond)
		}
	})
	balancers, err := d.cloud.ListLoadBalancers(t.Context(), cloudapi.ListOptions{})
	if err != nil || len(balancers.Items) != 1 {
		t.Fatal(err, len(balancers.Items))
	}
	edges, err := d.cloud.ListEdges(t.Context(), cloudapi.ListOptions{})
	if err != nil || len(edges.Items) != 1 {
		t.Fatal(err)
	}
	browser.Look(t, browser.Cloud, *screenshots, map[string]any{
		"endpoint": d.env["MYCLOUD_ENDPOINT"], "token": d.env["MYCLOUD_TOKEN"], "search": "shop", "pages": map[string]string{
			"overview": "/ui/", "load-balancers": "/ui/load-balancers", "load-balancer": "/ui/load-balancers/" + balancers.Items[0].ID,
			"edges": "/ui/edges", "edge": "/ui/edges/" + edges.Items[0].ID, "jobs": "/ui/jobs",
		},
	})
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
