package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/bench/admission/results"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/process"
)

const (
	// connections is the number of connections to the API server among which concurrent clients are divided.
	connections = 8
	// requestLimit bounds a request. A webhook has three seconds; a busy machine needs longer.
	requestLimit = time.Minute
	// setupLimit bounds the start of everything.
	setupLimit = 5 * time.Minute
)

// bench is a control plane with webhooks that are put into force in turn.
type bench struct {
	*env.Env
	options        *options
	out, progress  io.Writer
	next           netip.Addr // of the next webhook
	ca             []byte
	client         *http.Client
	apiServer      *process.Process
	servers        []*server
	configurations []*configuration
}

// open starts everything that is measured.
func open(ctx context.Context, o *options, out, progress io.Writer) (_ *bench, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	if err := connect(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "quaymaster-bench-")
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(progress, "starting etcd and kube-apiserver; logs are in", dir)
	b := &bench{options: o, out: out, progress: progress, next: addresses.Addr()}
	// kube-apiserver looks for a default route otherwise.
	args := []string{"--advertise-address=" + addresses.Addr().String()}
	if b.Env, err = env.New(ctx, env.Options{Dir: dir, APIServerArgs: args}); err != nil {
		return nil, err
	}
	if err := b.prepare(ctx); err != nil {
		return nil, errors.Join(err, b.close(false))
	}
	return b, nil
}

func (b *bench) prepare(ctx context.Context) (err error) {
	if b.ca, err = os.ReadFile(b.Authority()); err != nil {
		return err
	}
	if b.client, err = b.newClient(); err != nil {
		return err
	}
	i := slices.IndexFunc(b.Processes(), func(p *process.Process) bool { return p.Name() == "kube-apiserver" })
	if i < 0 {
		return errors.New("no kube-apiserver among the processes")
	}
	b.apiServer = b.Processes()[i]
	if b.configurations, err = b.configure(ctx); err != nil {
		return err
	}
	for _, c := range b.configurations {
		if err := b.makeNamespace(ctx, c.namespace); err != nil {
			return err
		}
		if c.server != nil && !slices.Contains(b.servers, c.server) {
			b.servers = append(b.servers, c.server)
		}
	}
	return nil
}

// newClient returns a client that divides its requests among connections. HTTP/2 would send all over one.
func (b *bench) newClient() (*http.Client, error) {
	s := &spread{}
	for range connections {
		config := rest.CopyConfig(b.Admin)
		// Clients with different functions share no connection.
		config.Dial = (&net.Dialer{}).DialContext
		transport, err := rest.TransportFor(config)
		if err != nil {
			return nil, err
		}
		s.transports = append(s.transports, transport)
	}
	return &http.Client{Transport: s, Timeout: requestLimit}, nil
}

// spread uses its transports in turn.
type spread struct {
	transports []http.RoundTripper
	next       atomic.Uint64
}

// RoundTrip sends a request.
func (s *spread) RoundTrip(r *http.Request) (*http.Response, error) {
	return s.transports[s.next.Add(1)%uint64(len(s.transports))].RoundTrip(r)
}

// makeNamespace creates a namespace with a Service whose status can be written.
func (b *bench) makeNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := client.IgnoreAlreadyExists(b.Client.Create(ctx, namespace)); err != nil {
		return err
	}
	return env.Poll(ctx, "a Service in namespace "+name, func(ctx context.Context) error {
		svc := service(name, nil)
		svc.Name = stored
		return client.IgnoreAlreadyExists(b.Client.Create(ctx, svc))
	})
}

// close stops everything. Logs of a failed run are kept.
func (b *bench) close(ok bool) error {
	if err := b.Stop(); err != nil {
		return err
	}
	if !ok {
		fmt.Fprintln(b.progress, "logs are kept in", b.LogDir())
		return nil
	}
	return os.RemoveAll(b.Dir)
}

// measure measures everything that the options want.
func (b *bench) measure(ctx context.Context) error {
	if err := results.Describe(ctx, b.out, b.Env); err != nil {
		return err
	}
	for _, s := range b.servers {
		fmt.Fprintf(b.progress, "starting %s %d times\n", s.name, starts)
		if err := b.start(ctx, s); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.progress, "measuring idle webhooks for %s\n", idle)
	if err := b.rest(ctx); err != nil {
		return err
	}
	if err := b.rounds(ctx); err != nil {
		return err
	}
	if err := b.attack(ctx); err != nil {
		return fmt.Errorf("attack: %w", err)
	}
	if b.options.profiles == "" {
		return nil
	}
	if err := b.profile(ctx); err != nil {
		return fmt.Errorf("take profiles: %w", err)
	}
	return nil
}
