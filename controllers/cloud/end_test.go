package cloud

import (
	"context"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/fake"
)

// refusing is the transport to an API server that is down.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }

// The controllers have stopped, so that the lease can be released, even if a watch sleeps because the API server refused
// its connection.
func TestControlEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := NewManager("mycloud", own)
		if err != nil {
			t.Fatal(err)
		}
		m.Options.Generic.Controllers = []string{own}
		api, err := kubernetes.NewForConfig(&rest.Config{Host: "https://api", Transport: refusing{}})
		if err != nil {
			t.Fatal(err)
		}
		config := &ccmconfig.Config{SharedInformers: informers.NewSharedInformerFactory(api, 0)}
		config.SharedInformers.Core().V1().Nodes().Informer()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err = m.control(ctx, config.Complete(), Assembly{
			Cloud: &fake.Cloud{}, Leading: []func(context.Context){func(ctx context.Context) { <-ctx.Done() }},
		})
		if took := time.Since(start); err != nil || took != time.Minute {
			t.Errorf("ends %s after it was asked to: %v", took-time.Minute, err)
		}
		time.Sleep(time.Minute) // until the watch has ended, too
	})
}

// What every replica runs is not waited for forever: the pod would be killed.
func TestAwaitBackground(t *testing.T) {
	for _, sleep := range []time.Duration{stopLimit / 2, 2 * stopLimit} {
		synctest.Test(t, func(t *testing.T) {
			var running sync.WaitGroup
			running.Go(func() { time.Sleep(sleep) })
			start := time.Now()
			awaitBackground(&running)
			if took, want := time.Since(start), min(sleep, stopLimit); took != want {
				t.Errorf("waited %s, want %s", took, want)
			}
			running.Wait()
		})
	}
}
