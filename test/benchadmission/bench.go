package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/env"
	"quaymaster.dev/test/process"
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
	progress       io.Writer
	network        *network
	ca             []byte
	clients        []*http.Client
	apiServer      *process.Process
	servers        []*server
	configurations []*configuration
}

// open starts everything that is measured.
func open(ctx context.Context, o *options, progress io.Writer) (_ *bench, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	b := &bench{options: o, progress: progress}
	if b.network, err = newNetwork(o); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "quaymaster-bench-")
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(progress, "starting etcd and kube-apiserver; logs are in", dir)
	var args []string
	if o.isolated {
		// kube-apiserver looks for a default route otherwise.
		args = append(args, "--advertise-address="+addresses.Addr().String())
	}
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
	for range connections {
		config := rest.CopyConfig(b.Admin)
		// Clients with different functions share no connection.
		config.Dial = (&net.Dialer{}).DialContext
		c, err := rest.HTTPClientFor(config)
		if err != nil {
			return err
		}
		c.Timeout = requestLimit
		b.clients = append(b.clients, c)
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
	for _, s := range b.servers {
		fmt.Fprintf(b.progress, "starting %s %d times\n", s.name, b.options.starts)
		if err := b.start(ctx, s); err != nil {
			return err
		}
	}
	return nil
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
	if !ok || b.options.keep {
		fmt.Fprintln(b.progress, "logs are kept in", b.LogDir())
		return nil
	}
	return os.RemoveAll(b.Dir)
}

// measure runs all rounds.
func (b *bench) measure(ctx context.Context) (*report, error) {
	r, err := b.newReport(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(b.progress, "measuring idle webhooks for %s\n", b.options.idle)
	if err := b.rest(ctx); err != nil {
		return nil, err
	}
	if err := b.rounds(ctx, r); err != nil {
		return nil, err
	}
	if err := b.attack(ctx, r); err != nil {
		return nil, fmt.Errorf("attack: %w", err)
	}
	if err := r.finish(b); err != nil {
		return nil, err
	}
	if b.options.profiles != "" {
		if err := b.profile(ctx); err != nil {
			return nil, fmt.Errorf("take profiles: %w", err)
		}
	}
	return r, nil
}
