package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/test/harness/env"
)

// addresses are the addresses of webhooks: cluster IPs of Services, which kube-proxy would translate to the addresses of
// pods. API servers treat them like any address of another machine. In particular, they use HTTP/1.1, while loopback
// addresses get HTTP/2.
var addresses = netip.MustParsePrefix("10.96.255.1/24")

// attackersAddress is the source of attacks on webhooks.
var attackersAddress = netip.MustParseAddr("10.96.255.254")

// connect makes all addresses local, as 127.0.0.0/8 is, in the network namespace of this process, which must be a new one.
func connect() error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("configure the network: %w", err)
	}
	if loopback.Attrs().Flags&net.FlagUp != 0 {
		return errors.New("must run in a new network namespace; use make bench-admission")
	}
	address, err := netlink.ParseAddr(addresses.String())
	if err != nil {
		return err
	}
	if err := errors.Join(netlink.LinkSetUp(loopback), netlink.AddrAdd(loopback, address)); err != nil {
		return fmt.Errorf("configure the network: %w", err)
	}
	return nil
}

// endpoint is the address of a webhook.
type endpoint struct {
	name string // also the name of its Service
	host netip.Addr
}

// port is that of all webhooks.
const port uint16 = 443

// hosts returns what a certificate must be valid for.
func (e endpoint) hosts() []string {
	return []string{e.host.String(), e.name + "." + env.Namespace + ".svc"}
}

func (e endpoint) address() string { return netip.AddrPortFrom(e.host, port).String() }

func (e endpoint) url(path string) string { return "https://" + e.address() + path }

// loopback returns an address for another port of the program. Each has a host of its own there, too.
func (e endpoint) loopback(port uint16) string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, e.host.As4()[3]}), port).String()
}

// clientConfig returns how the API server calls a path of the webhook.
func (e endpoint) clientConfig(path string, ca []byte) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{
		Service:  &admissionregistrationv1.ServiceReference{Namespace: env.Namespace, Name: e.name, Path: &path},
		CABundle: ca,
	}
}

// expose creates a Service for a webhook.
func (b *bench) expose(ctx context.Context, name string) (endpoint, error) {
	e := endpoint{name: name, host: b.next}
	b.next = b.next.Next()
	err := b.Client.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name},
		Spec: corev1.ServiceSpec{
			ClusterIP: e.host.String(),
			Ports:     []corev1.ServicePort{{Name: "webhook", Port: int32(port)}},
		},
	})
	if err != nil {
		return e, fmt.Errorf("expose %s: %w", name, err)
	}
	return e, nil
}
