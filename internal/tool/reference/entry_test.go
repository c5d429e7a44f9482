package reference_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/tool/reference"
)

// entryOf returns the only entry of a catalog with the key.
func entryOf(t *testing.T, catalog, key string) reference.Entry {
	t.Helper()
	found := reference.Find(library.BuiltIn(), []string{catalog}, key)
	if len(found) != 1 {
		t.Fatalf("%s of %s: %d entries", key, catalog, len(found))
	}
	return found[0]
}

func TestEntriesAreComplete(t *testing.T) {
	for _, name := range library.BuiltIn().Names() {
		seen := map[string]bool{}
		for _, e := range reference.Entries(library.BuiltIn(), name) {
			for field, text := range map[string]string{
				"title": e.Title, "key": e.Key, "help": e.Help, "type": e.Type, "allowed": e.Allowed, "example": e.Example, "from": e.From,
				"source": strings.Join(e.Source, ""),
			} {
				if strings.TrimSpace(text) == "" && (field != "example" || name == "mycloud") {
					t.Errorf("%s of %s has no %s", e.Key, name, field)
				}
			}
			if e.Catalog != name || seen[e.Key] {
				t.Errorf("%s: has catalog %s, is a duplicate: %t", e.Key, e.Catalog, seen[e.Key])
			}
			seen[e.Key] = true
		}
		if len(seen) == 0 && name != "rancher" {
			t.Errorf("%s has no entries", name)
		}
	}
	if found := reference.Entries(library.BuiltIn(), "unknown"); found != nil {
		t.Errorf("an unknown catalog has entries: %v", found)
	}
}

// An entry holds everything that determines whether a value is valid.
func TestEntry(t *testing.T) {
	tests := map[string]struct {
		catalog, key string
		want         reference.Entry
	}{
		"of the DLB": {"mycloud", "service.beta.kubernetes.io/dlb-network-type", reference.Entry{
			Catalog: "mycloud", Title: "mycloud", Key: "service.beta.kubernetes.io/dlb-network-type",
			Help: "Whether the load balancer is reachable from the internet, or from the private network only.",
			Type: "enum", Allowed: "one of public, private", Values: []string{"public", "private"},
			Default: "public", Example: "private", From: "quaymaster.dev this release", Source: []string{"docs/guides/annotations.md"},
			Rules:  []string{"An invalid value is refused by the controller or its cloud."},
			Change: "It is immutable: the value, even a default one, must not change once the Service is a load balancer.",
		}},
		"of another cloud": {"hcloud", "load-balancer.hetzner.cloud/certificate-type", reference.Entry{
			Catalog: "hcloud", Title: "Hetzner Cloud", Key: "load-balancer.hetzner.cloud/certificate-type",
			Help: "Whether the certificate was uploaded or is issued and renewed by the cloud.",
			Type: "enum", Allowed: "one of uploaded, managed", Values: []string{"uploaded", "managed"}, Default: "uploaded", Example: "managed",
			Rules: []string{
				"An invalid value is silently misread, with harm: the controller treats anything but lower-case managed as uploaded.",
				"managed requires load-balancer.hetzner.cloud/http-managed-certificate-domains; otherwise it is refused by the controller or its cloud.",
				"Controllers before v1.9.0 do not read it.",
			},
			From:   "github.com/hetznercloud/hcloud-cloud-controller-manager v1.35.0-13-g6485324fbd97, 2026-08-19",
			Source: []string{"internal/annotation/load_balancer.go:174", "internal/hcops/load_balancer.go:1067,1205-1236"},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, entryOf(t, test.catalog, test.key)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSentences(t *testing.T) {
	const (
		alibaba = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"
		amazon  = "service.beta.kubernetes.io/aws-load-balancer-"
	)
	tests := map[string]struct{ catalog, key, want string }{
		"aliases":  {"metallb", "metallb.io/allow-shared-ip", "Its aliases are deprecated."},
		"a change": {"hcloud", "load-balancer.hetzner.cloud/location", "A change while there is a load balancer is silently ignored."},
		"a requirement with a message": {
			"hcloud", "load-balancer.hetzner.cloud/network-zone",
			"It must not be combined with load-balancer.hetzner.cloud/location, which takes precedence; otherwise it is silently ignored.",
		},
		"a requirement of a value": {
			"alibaba", alibaba + "health-check-type", "udp requires spec.ports.protocol set to nothing but UDP; otherwise it is refused by the controller or its cloud.",
		},
		"a variant": {
			"alibaba", alibaba + "health-check-type", "With spec.loadBalancerClass set to alibabacloud.com/nlb, it must be one of tcp, http, udp (in any case); " +
				"an invalid value is refused by the controller or its cloud.",
		},
		"a variant that may change": {
			"alibaba", alibaba + "address-type",
			"With spec.loadBalancerClass set to alibabacloud.com/nlb, it must be one of internet, intranet (in any case); " +
				"an invalid value is refused by the controller or its cloud. It may change.",
		},
		"where it is read": {
			"aws-lbc", amazon + "target-node-labels",
			"It is read only with " + amazon + "nlb-target-type set to anything but ip and with " + amazon + "type set to anything but nlb-ip.",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if e := entryOf(t, test.catalog, test.key); !slices.Contains(append(e.Rules, e.Change), test.want) {
				t.Errorf("want %q among\n%s", test.want, strings.Join(e.Rules, "\n"))
			}
		})
	}
}
