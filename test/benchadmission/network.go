package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/test/env"
)

// How the API server finds a webhook.
const (
	viaService = "service"
	viaURL     = "url"
)

// addresses are the addresses of webhooks in the own network namespace: cluster IPs of Services, which kube-proxy would
// translate to the addresses of pods. API servers treat them like any address of another machine. In particular, they
// use HTTP/1.1, while loopback addresses get HTTP/2.
var addresses = netip.MustParsePrefix("10.96.255.1/24")

// attackersAddress is the source of attacks on webhooks.
var attackersAddress = netip.MustParseAddr("10.96.255.254")

// network hands out addresses for webhooks.
type network struct {
	via  string
	next netip.Addr // the next address of an isolated network
	own  netip.Addr // the machine's address, if the network is not isolated
}

func newNetwork(o *options) (*network, error) {
	if o.isolated {
		via := o.via
		if via == "" {
			via = viaService
		}
		return &network{via: via, next: addresses.Addr()}, nil
	}
	if o.via == viaService {
		return nil, errors.New("-via=service requires a network namespace: run as root, or allow user namespaces")
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, address := range list {
		prefix, err := netip.ParsePrefix(address.String())
		if err == nil && prefix.Addr().Is4() && prefix.Addr().IsGlobalUnicast() {
			return &network{via: viaURL, own: prefix.Addr()}, nil
		}
	}
	return nil, errors.New("API servers use HTTP/2 for loopback addresses only, so webhooks must be measured on " +
		"another one: run as root, allow user namespaces, or give this machine an IPv4 address")
}

// endpoint is the address of a webhook.
type endpoint struct {
	name    string // also the name of its Service
	host    netip.Addr
	port    int
	service bool
}

func (n *network) endpoint(name string) (endpoint, error) {
	if n.own.IsValid() {
		port, err := env.FreePort()
		return endpoint{name: name, host: n.own, port: port}, err
	}
	e := endpoint{name: name, host: n.next, port: 443, service: n.via == viaService}
	n.next = n.next.Next()
	return e, nil
}

// hosts returns what a certificate must be valid for.
func (e endpoint) hosts() []string {
	return []string{e.host.String(), e.name + "." + env.Namespace + ".svc"}
}

func (e endpoint) address() string { return netip.AddrPortFrom(e.host, uint16(e.port)).String() }

func (e endpoint) url(path string) string { return "https://" + e.address() + path }

// clientConfig returns how the API server calls a path of the webhook.
func (e endpoint) clientConfig(path string, ca []byte) admissionregistrationv1.WebhookClientConfig {
	if !e.service {
		url := e.url(path)
		return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca}
	}
	port := int32(e.port)
	return admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{
			Namespace: env.Namespace, Name: e.name, Path: &path, Port: &port,
		},
		CABundle: ca,
	}
}

// expose creates the Service of the webhook.
func (b *bench) expose(ctx context.Context, e endpoint) error {
	if !e.service {
		return nil
	}
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: e.name},
		Spec: corev1.ServiceSpec{
			ClusterIP: e.host.String(),
			Ports:     []corev1.ServicePort{{Name: "webhook", Port: int32(e.port)}},
		},
	}
	if err := b.Client.Create(ctx, svc); err != nil {
		return fmt.Errorf("expose %s on port %s: %w", e.name, strconv.Itoa(e.port), err)
	}
	return nil
}
