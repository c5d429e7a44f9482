package reference_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/reference"
)

// the is the only entry of a catalog that has the key.
func the(t *testing.T, catalog, key string) reference.Entry {
	t.Helper()
	found := reference.Find([]string{catalog}, key)
	if len(found) != 1 {
		t.Fatalf("%s of %s: %d entries", key, catalog, len(found))
	}
	return found[0]
}

func TestEntriesAreComplete(t *testing.T) {
	for _, name := range policy.CatalogNames() {
		seen := map[string]bool{}
		for _, e := range reference.Entries(name) {
			for what, text := range map[string]string{
				"title": e.Title, "key": e.Key, "help": e.Help, "type": e.Type, "allowed": e.Allowed, "example": e.Example, "from": e.From,
				"source": strings.Join(e.Source, ""),
			} {
				if strings.TrimSpace(text) == "" && (what != "example" || name == "mycloud") {
					t.Errorf("%s of %s lacks its %s", e.Key, name, what)
				}
			}
			if e.Catalog != name || seen[e.Key] {
				t.Errorf("%s: catalog %s, occurs before: %t", e.Key, e.Catalog, seen[e.Key])
			}
			seen[e.Key] = true
		}
		if len(seen) == 0 && name != "rancher" {
			t.Errorf("%s has no entries", name)
		}
	}
	if found := reference.Entries("nobody"); found != nil {
		t.Errorf("of a catalog that does not exist: %v", found)
	}
}

// An entry tells everything that decides about a value.
func TestEntry(t *testing.T) {
	tests := map[string]struct {
		catalog, key string
		want         reference.Entry
	}{
		"of the DLB": {"mycloud", "service.beta.kubernetes.io/dlb-network-type", reference.Entry{
			Catalog: "mycloud", Title: "DLB", Key: "service.beta.kubernetes.io/dlb-network-type",
			Help: "Whether the load balancer is reachable from the internet or from the private network alone.",
			Type: "enum", Allowed: "one of public, private", Values: []string{"public", "private"}, Rule: "oneof=public private",
			Default: "public", Example: "public", From: "this project", Source: []string{"docs/reference/annotations.md#network-type"},
			Change: "It is immutable: compared by its effective value, it may not change after the Service became a load balancer.",
		}},
		"of another cloud": {"hcloud", "load-balancer.hetzner.cloud/certificate-type", reference.Entry{
			Catalog: "hcloud", Title: "Hetzner Cloud", Key: "load-balancer.hetzner.cloud/certificate-type",
			Type: "enum", Values: []string{"uploaded", "managed"}, Default: "uploaded", Example: "managed",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := the(t, test.catalog, test.key)
			if name != "of the DLB" {
				t.Logf("%+v", got)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSentences(t *testing.T) {
	tests := map[string]struct{ catalog, key, want string }{}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if e := the(t, test.catalog, test.key); !slices.Contains(append(e.Rules, e.Change), test.want) {
				t.Errorf("want %q among\n%s", test.want, strings.Join(e.Rules, "\n"))
			}
		})
	}
}
