package main

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/go-kit/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"go.universe.tf/metallb/internal/allocator"
	"go.universe.tf/metallb/internal/config"
	"quaymaster.dev/tools/vendors/judge"
)

// This file replaces MetalLB's main.go, which starts the controller in a cluster. service.go, next to it, has everything
// that decides about a Service, and needs these two types.

// service is the part of a client that the controller uses.
type service interface {
	UpdateStatus(svc *v1.Service) error
	Infof(svc *v1.Service, desc, msg string, args ...interface{})
	Errorf(svc *v1.Service, desc, msg string, args ...interface{})
}

type controller struct {
	client service
	pools  *config.Pools
	ips    *allocator.Allocator
}

func main() {
	judge.Main(judge.Description{
		Vendor: "metallb",
		Module: "go.universe.tf/metallb",
		Covers: "convergeBalancer of the controller with its allocator, for a new Service and a pool of all addresses",
		NotCovered: []string{
			"which pools and addresses there are, and which Services they are reserved for",
			"Services that share an address",
			"changes of a Service that has an address",
		},
	}, verdict)
}

func verdict(svc *v1.Service) judge.Verdict {
	// The controller runs either with --lb-class, or acts only on Services without a class; the Service does not show which.
	if class := svc.Spec.LoadBalancerClass; svc.Spec.Type != v1.ServiceTypeLoadBalancer || class != nil && !strings.HasPrefix(*class, "metallb") {
		return judge.Skip("the controller acts on other Services")
	}
	events := &events{}
	pools := &config.Pools{ByName: map[string]*config.Pool{poolOf(svc): everything(poolOf(svc))}}
	c := &controller{client: events, pools: pools, ips: allocator.New(func(string) {})}
	c.ips.SetPools(pools)
	err := c.convergeBalancer(log.NewNopLogger(), svc.Namespace+"/"+svc.Name, svc)
	c.ips.Unassign(svc.Namespace + "/" + svc.Name)
	if err != nil {
		err = errors.Join(append(events.errors, err)...)
	}
	return judge.Refuse(err)
}

// poolOf returns the name of the only pool: the requested one, if the API server accepts that name of an IPAddressPool.
func poolOf(svc *v1.Service) string {
	name := valueForAnnotation(svc.Annotations, AnnotationAddressPool, DeprecatedAnnotationAddressPool)
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "default"
	}
	return name
}

// everything returns a pool of all addresses.
func everything(name string) *config.Pool {
	pool := &config.Pool{Name: name, AutoAssign: true}
	for _, cidr := range []string{"0.0.0.0/0", "::/0"} {
		_, network, err := net.ParseCIDR(cidr)
		if err != nil {
			panic(err)
		}
		pool.CIDR = append(pool.CIDR, network)
	}
	return pool
}

// events collects the errors that the controller reports by Events.
type events struct{ errors []error }

var _ service = (*events)(nil)

func (e *events) UpdateStatus(*v1.Service) error { return nil }

func (e *events) Infof(*v1.Service, string, string, ...interface{}) {}

func (e *events) Errorf(_ *v1.Service, reason, message string, args ...interface{}) {
	e.errors = append(e.errors, fmt.Errorf(reason+": "+message, args...))
}
