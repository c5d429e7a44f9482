package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server/inventory"
	"quaymaster.dev/test/harness/env"
)

const (
	namespace   = "shop"
	annotation  = "service.beta.kubernetes.io/dlb-"
	ingressNode = "node.beta.kubernetes.io/dlb-ingress-node"
	// writers is how many requests of the benchmark itself are made at the same time.
	writers = 32
	// stopWait is how long the controllers may take to end.
	stopWait = 15 * time.Second
	// setupLimit bounds the start of a control plane and a cloud.
	setupLimit = 5 * time.Minute
)

// world is a control plane and a cloud, whose requests from the controllers are counted.
type world struct {
	*env.Env
	mycloud *env.Mycloud
	api     kubernetes.Interface
	cloud   *cloudapi.Client
	counter *counter
	config  env.CloudConfig

	services, nodes int
	stop            []func()
}

// open starts an empty world.
func open(ctx context.Context, name string) (_ *world, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupLimit)
	defer cancel()
	dir, err := os.MkdirTemp(memory(), "quaymaster-"+name+"-")
	if err != nil {
		return nil, err
	}
	w := &world{}
	// Every Service has two node ports.
	if w.Env, err = env.New(ctx, env.Options{Dir: dir, APIServerArgs: []string{"--service-node-port-range=10000-60000"}}); err != nil {
		return nil, err
	}
	if err := w.prepare(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// memory returns a folder in memory if the system has one: what disks cost is not measured.
func memory() string {
	const shared = "/dev/shm"
	if _, err := os.Stat(shared); err != nil {
		return ""
	}
	return shared
}

func (w *world) prepare(ctx context.Context) error {
	if err := w.InstallChart(ctx, nil); err != nil {
		return err
	}
	// Admission does not run.
	for _, kind := range []client.Object{&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}} {
		if err := w.Client.DeleteAllOf(ctx, kind); err != nil {
			return err
		}
	}
	if err := w.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	config := rest.CopyConfig(w.Admin)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	var err error
	if w.api, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	file, err := w.inventory()
	if err != nil {
		return err
	}
	if w.mycloud, err = w.StartMycloud(ctx, file, "--fault-endpoint"); err != nil {
		return err
	}
	w.cloud, err = cloudapi.New(cloudapi.Options{Endpoint: w.mycloud.Endpoint, Token: cloudapi.StaticToken(w.mycloud.Token)})
	if err != nil {
		return err
	}
	return w.count()
}

// inventory writes an inventory with room for all load balancers, but without instances.
func (w *world) inventory() (string, error) {
	text, err := yaml.Marshal(inventory.Inventory{
		Regions: []inventory.Region{{ID: "eu-1"}}, Zones: []inventory.Zone{{ID: zone, Region: "eu-1"}},
		InstanceTypes: []inventory.InstanceType{{ID: machineType, CPUs: 4, MemoryMiB: 8192}},
		AddressPools:  []inventory.AddressPool{{Scheme: cloudv1.SchemePublic, CIDR: "100.64.0.0/16"}},
		RouteTables:   []inventory.RouteTable{{ID: "rt-main", VPCID: "vpc-main"}},
	})
	if err != nil {
		return "", err
	}
	file := w.Dir + "/inventory.yaml"
	return file, os.WriteFile(file, text, 0o600)
}

// count starts the server that stands between the controllers and the cloud.
func (w *world) count() error {
	var err error
	if w.counter, err = newCounter(w.mycloud.Endpoint); err != nil {
		return err
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	server := &http.Server{Handler: w.counter, ReadHeaderTimeout: time.Minute}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) })
	w.stop = append(w.stop, func() {
		_ = server.Close()
		running.Wait()
	})
	front := *w.mycloud
	front.Endpoint = "http://" + listener.Addr().String()
	w.config = env.CloudConfigFor("dev", &front)
	return nil
}

// start runs the controllers.
func (w *world) start(ctx context.Context, args ...string) (*env.Server, error) {
	return w.StartControllers(ctx, w.config, append([]string{"--cluster-cidr=" + podRange}, args...)...)
}

// startStock runs the controllers of k8s.io/cloud-provider with the same flags and rights. Their program is built beside
// this one.
func (w *world) startStock(ctx context.Context, args ...string) (*env.Server, error) {
	s, err := w.PrepareControllers(ctx, w.config, append([]string{"--cluster-cidr=" + podRange}, args...)...)
	if err != nil {
		return nil, err
	}
	this, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s.Replace(filepath.Join(filepath.Dir(this), "stockcontrollers"))
	if err := s.Restart(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// close stops everything and removes its files.
func (w *world) close() error {
	for _, stop := range w.stop {
		stop()
	}
	return errors.Join(w.Stop(), os.RemoveAll(w.Dir))
}

// each calls do for every number from first to last, many at a time.
func each(first, last int, do func(i int) error) error {
	var running errgroup.Group
	running.SetLimit(writers)
	for i := first; i <= last; i++ {
		running.Go(func() error {
			if err := do(i); err != nil {
				return fmt.Errorf("object %d: %w", i, err)
			}
			return nil
		})
	}
	return running.Wait()
}
