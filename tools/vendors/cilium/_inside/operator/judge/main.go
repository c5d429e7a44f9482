// The judge of catalog cilium: what Cilium's operator and agents read in Services.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cilium/cilium/operator/pkg/lbipam"
	"github.com/cilium/cilium/operator/pkg/nodeipam"
	"github.com/cilium/cilium/pkg/annotation"
	slim_corev1 "github.com/cilium/cilium/pkg/k8s/slim/k8s/api/core/v1"
	"github.com/cilium/cilium/pkg/loadbalancer/reflectors"
	"quaymaster.dev/tools/vendors/judge"
)

func main() {
	judge.Main(judge.Description{
		Vendor: "cilium",
		Module: "github.com/cilium/cilium",
		Covers: "LB-IPAM for a new Service with a pool of all addresses, Node-IPAM, and the agents' conversion of Services, with every " +
			"setting that lets Services choose; what they only log, or read as something else, must be found, too",
		NotCovered: []string{
			"which pools, nodes, other Services and clusters there are",
			"sharing of addresses, EndpointSlices of other clusters, and load balancing by Envoy",
			"changes of a Service that has an address",
		},
	}, verdict)
}

func verdict(service *corev1.Service) judge.Verdict {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return judge.Skip("the catalog is for Services of type LoadBalancer")
	}
	slim, err := slimmed(service)
	if err != nil {
		return judge.Refuse(err)
	}
	ctx, messages := context.Background(), &messages{}
	logger := slog.New(messages)
	unsatisfied, err := lbipam.AllocateForJudge(ctx, logger, slim)
	if err != nil {
		return judge.Refuse(err)
	}
	messages.texts = append(messages.texts, unsatisfied...)
	if err := nodeipam.ReconcileForJudge(ctx, slog.New(slog.DiscardHandler), service); err != nil {
		return judge.Refuse(err)
	}
	converted := reflectors.ConvertForJudge(logger, slim)
	if _, err := annotation.GetAnnotationServiceAffinity(converted); err != nil {
		messages.texts = append(messages.texts, err.Error())
	}
	// These functions replace a value that they do not know without a message.
	for _, read := range []struct {
		keys []string
		as   any
	}{
		{[]string{annotation.ServiceLoadBalancingAlgorithm}, converted.GetLBAlgorithmAnnotation()},
		{[]string{annotation.ServiceSourceRangesPolicy}, converted.GetSourceRangesPolicy()},
		{[]string{annotation.ServiceProxyDelegation}, converted.GetProxyDelegation()},
		{[]string{annotation.GlobalService, annotation.GlobalServiceAlias}, annotation.GetAnnotationIncludeExternal(service)},
		{[]string{annotation.SharedService, annotation.SharedServiceAlias}, annotation.GetAnnotationShared(service)},
	} {
		as := fmt.Sprint(read.as)
		if value, _ := annotation.Get(service, read.keys[0], read.keys[1:]...); value != "" && !strings.EqualFold(value, as) {
			messages.texts = append(messages.texts, fmt.Sprintf("%s %q is read as %s", read.keys[0], value, as))
		}
	}
	return judge.Warn(strings.Join(slices.Compact(messages.texts), "; "))
}

// slimmed returns the Service in the type that Cilium decodes it into.
func slimmed(service *corev1.Service) (*slim_corev1.Service, error) {
	raw, err := json.Marshal(service)
	if err != nil {
		return nil, err
	}
	slim := &slim_corev1.Service{}
	return slim, json.Unmarshal(raw, slim)
}

// messages is a log that keeps warnings and errors.
type messages struct{ texts []string }

var _ slog.Handler = (*messages)(nil)

func (*messages) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (m *messages) Handle(_ context.Context, record slog.Record) error {
	text := record.Message
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			text += ": " + a.Value.String()
		}
		return true
	})
	m.texts = append(m.texts, text)
	return nil
}

func (m *messages) WithAttrs([]slog.Attr) slog.Handler { return m }

func (m *messages) WithGroup(string) slog.Handler { return m }
