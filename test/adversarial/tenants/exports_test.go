package tenants_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

const (
	// slowdown is how many times as expensive a dry run may be with exported policies as the most expensive one without, and
	// slowdownConstant what it may cost in addition, as a multiple of yardstick.
	slowdown, slowdownConstant = 3, 20
	// runs are how often a dry run is measured; the least figure counts.
	runs = 3
)

// vendors are annotations that make a Service subject to the policies of a catalog.
var vendors = map[string]string{
	"aws-lbc": "service.beta.kubernetes.io/aws-load-balancer-scheme", "azure": "service.beta.kubernetes.io/azure-load-balancer-ipv4",
	"mycloud": dlb + "tags", "hcloud": "load-balancer.hetzner.cloud/name", "gcp": "networking.gke.io/load-balancer-type",
	"digitalocean": "service.beta.kubernetes.io/do-loadbalancer-name", "linode": "service.beta.kubernetes.io/linode-loadbalancer-tags",
	"openstack": "loadbalancer.openstack.org/flavor-id", "oci": "oci.oraclecloud.com/load-balancer-type",
	"alibaba": "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-name", "metallb": "metallb.io/address-pool",
}

// subject returns a Service that is subject to the policies of catalogs, with many more annotations.
func subject(catalogs []string, n int, format string, options ...builder.ServiceOption) []byte {
	svc := service("subject", options...)
	for _, name := range catalogs {
		builder.Annotation(vendors[name], "x")(svc)
	}
	for i := range n {
		builder.Annotation(fmt.Sprintf(format, i), "")(svc)
	}
	return encode(svc)
}

// listed adds lists that the policies of several catalogs split.
func listed(size int) builder.ServiceOption {
	return func(svc *corev1.Service) {
		keys := []string{
			"service.beta.kubernetes.io/aws-load-balancer-subnets", "service.beta.kubernetes.io/azure-allowed-ip-ranges", dlb + "tags",
			"service.beta.kubernetes.io/azure-allowed-service-tags", "service.beta.kubernetes.io/aws-load-balancer-additional-resource-tags",
		}
		for _, key := range keys {
			builder.Annotation(key, strings.Repeat("a=b,", size/len(keys)/4))(svc)
		}
	}
}

// padService returns the change of a pad.
func padService(name string) builder.ServiceOption {
	return func(svc *corev1.Service) {
		pads := servicePads()
		pads[slices.IndexFunc(pads, func(p pad) bool { return p.name == name })].service(svc)
	}
}

// measureExports times dry runs of Services with many annotations, without and with exported policies.
func measureExports(s *stage) {
	sets := [][]string{{"aws-lbc"}, {"azure"}}
	if *full {
		sets = append(sets, []string{"mycloud"}, slices.Sorted(maps.Keys(vendors)))
	}
	for _, catalogs := range sets {
		bodies := map[string][]byte{
			"20,000 short foreign keys": subject(catalogs, 20_000, "k%d"),
			// Less than what is too much at first sight.
			"lists of 250 KiB": subject(catalogs, 0, "", listed(250<<10)),
		}
		if *full {
			maps.Copy(bodies, map[string][]byte{
				"4,000 ports of Azure":          subject(catalogs, 4_000, "service.beta.kubernetes.io/port_%d_no_lb_rule"),
				"2,900 ports and 950 keys":      subject(catalogs, 950, dlb+"listener-maxqps.%d", func(svc *corev1.Service) { withPorts(svc, 2_900) }),
				"4,000 keys of AWS":             subject(catalogs, 4_000, "service.beta.kubernetes.io/aws-load-balancer-x%d"),
				"4,000 attributes of listeners": subject(catalogs, 4_000, "service.beta.kubernetes.io/aws-load-balancer-listener-attributes.TCP-%d"),
				"4,000 keys of the DLB":         subject(catalogs, 4_000, dlb+"x%d"),
				"950 short foreign keys":        subject(catalogs, 950, "k%d"),
				"950 attributes":                subject(catalogs, 950, "service.beta.kubernetes.io/aws-load-balancer-listener-attributes.TCP-%d"),
				"950 ports of Azure":            subject(catalogs, 950, "service.beta.kubernetes.io/port_%d_no_lb_rule"),
				"950 port forms":                subject(catalogs, 950, dlb+"listener-maxqps.%d"),
				"70,000 source ranges":          subject(catalogs, 0, "", padService("70,000 source ranges")),
			})
		}
		without, most := map[string]time.Duration{}, time.Duration(0)
		for what, body := range bodies {
			without[what] = s.costOfDryRun(body, time.Minute)
			most = max(most, without[what])
		}
		limit := slowdown*most + slowdownConstant*yardstick(s.T)
		remove := s.installExport(catalogs)
		for what, body := range bodies {
			with := s.costOfDryRun(body, limit)
			s.note("exported policies of %s: %s cost the API server %s, without policies %s", catalogs, what, with.Round(time.Millisecond),
				without[what].Round(time.Millisecond))
			if with > limit {
				s.Errorf("exported policies of %s: a dry run with %s costs the API server %s, more than %s", catalogs, what, with, limit)
			}
		}
		remove()
	}
}

// costOfDryRun returns the CPU time that creating an object by dry run costs the API server, whatever the decision. If it
// exceeds a limit, it is measured again, because other work may have disturbed it, unless the excess is beyond doubt.
func (s *stage) costOfDryRun(body []byte, limit time.Duration) time.Duration {
	s.Helper()
	s.gate.Lock()
	defer s.gate.Unlock()
	least := time.Duration(math.MaxInt64)
	for run := 0; run < runs && (run == 0 || least > limit && least < 4*limit); run++ {
		before := cpuOfAPIServer(s.T)
		if got := s.attacker.send(s.Context(), http.MethodPost, servicesOf(s.namespace)+"?dryRun=All", plainJSON, body); got.err != nil {
			s.Error(got.err)
		}
		least = min(least, cpuOfAPIServer(s.T)-before)
	}
	return least
}

// installExport installs exported policies of catalogs for the attacker's namespace.
func (s *stage) installExport(catalogs []string) (remove func()) {
	program, err := env.Program("quayctl")
	if err != nil {
		s.Fatal(err)
	}
	text, err := exec.CommandContext(s.Context(), program, "export", "vap", "--catalog="+strings.Join(catalogs, ",")).Output()
	if err != nil {
		s.Fatal(err)
	}
	var created []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	awaited := ""
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			s.Fatal(err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if strings.HasSuffix(object.GetKind(), "Binding") {
			if err := unstructured.SetNestedStringMap(object.Object, map[string]string{corev1.LabelMetadataName: s.namespace},
				"spec", "matchResources", "namespaceSelector", "matchLabels"); err != nil {
				s.Fatal(err)
			}
		}
		if err := shared.Client.Create(s.Context(), object); err != nil {
			s.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		created = append(created, object)
		if name := object.GetName(); slices.Contains([]string{"quaymaster-aws-lbc", "quaymaster-azure", "quaymaster-mycloud"}, name) {
			awaited = name
		}
	}
	env.Eventually(s.T, soon, "the API server to evaluate exported policies", func(ctx context.Context) error {
		// The attacker's namespace was not subject to them before.
		s.attacker.post(ctx, servicesOf(s.namespace)+"?dryRun=All", subject(catalogs, 1, dlb+"x%d"))
		got := shared.admin.get(ctx, "/metrics")
		if series := fmt.Sprintf(`policy=%q`, awaited); !strings.Contains(string(got.text), series) {
			return fmt.Errorf("no series %s", series)
		}
		return nil
	})
	return func() {
		for _, object := range created {
			if err := shared.Client.Delete(s.Context(), object); err != nil {
				s.Error(err)
			}
		}
	}
}
