// Command attacker runs one attack of test/adversarial until it receives a signal. It is a process of its own with one
// core, so that it takes no more from the webhook than it would from another machine.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"quaymaster.dev/test/adversarial"
)

// authors is the number of clients that create hostile Services.
const authors = 2

// attacker holds the flags.
type attacker struct {
	attack, object             string
	address, path, from, trust string
	connections                int
	kubeconfig, namespace      string
}

func main() {
	runtime.GOMAXPROCS(1)
	a := &attacker{}
	flag.StringVar(&a.attack, "attack", "", "name of an attack on the server")
	flag.StringVar(&a.object, "object", "", "name of a hostile Service to create instead")
	flag.StringVar(&a.address, "address", "", "address of the server")
	flag.StringVar(&a.path, "path", "", "path of a webhook")
	flag.StringVar(&a.from, "from", "", "IP address to connect from")
	flag.StringVar(&a.trust, "ca", "", "file with the CA of the server")
	flag.IntVar(&a.connections, "connections", 1, "number of connections to the server")
	flag.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig of the author of hostile Services")
	flag.StringVar(&a.namespace, "namespace", "", "namespace of hostile Services")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := a.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "attacker:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

func (a *attacker) run(ctx context.Context) error {
	for _, object := range adversarial.Objects() {
		if object.Name == a.object {
			return a.create(ctx, object.Service)
		}
	}
	for _, attack := range adversarial.Attacks() {
		if attack.Name == a.attack {
			return a.connect(ctx, attack)
		}
	}
	return errors.New("unknown attack or object")
}

// connect attacks the server.
func (a *attacker) connect(ctx context.Context, attack adversarial.Attack) error {
	roots := x509.NewCertPool()
	trust, err := os.ReadFile(a.trust)
	if err != nil {
		return err
	}
	roots.AppendCertsFromPEM(trust)
	host, _, _ := bytes.Cut([]byte(a.address), []byte(":"))
	attack.Run(ctx, adversarial.Target{
		Address: a.address, Path: a.path, From: a.from,
		TLS: &tls.Config{RootCAs: roots, ServerName: string(host), MinVersion: tls.VersionTLS12},
	}, a.connections)
	return nil
}

// create creates a Service again and again, whatever the answers are.
func (a *attacker) create(ctx context.Context, svc *corev1.Service) error {
	config, err := clientcmd.BuildConfigFromFlags("", a.kubeconfig)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	client.Timeout = time.Minute
	svc.Namespace, svc.UID = a.namespace, ""
	for i := range svc.Spec.Ports {
		// The API server allocates it.
		svc.Spec.Ports[i].NodePort = 0
	}
	body, err := json.Marshal(svc)
	if err != nil {
		return err
	}
	authors := vegeta.NewAttacker(vegeta.Client(client), vegeta.Workers(authors), vegeta.MaxWorkers(authors))
	defer context.AfterFunc(ctx, func() { authors.Stop() })()
	target := vegeta.NewStaticTargeter(vegeta.Target{
		Method: http.MethodPost, URL: config.Host + "/api/v1/namespaces/" + a.namespace + "/services?dryRun=All",
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
	})
	for range authors.Attack(target, vegeta.ConstantPacer{}, 0, "") {
		// Every answer is accepted.
	}
	return nil
}
