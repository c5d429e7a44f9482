package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/kube/policystore"
	"quaymaster.dev/internal/rules/policy"
)

// TestPolicyFollower: Services are reconciled when a policy changes what it asks for, but not when only its status changes.
func TestPolicyFollower(t *testing.T) {
	var enqueued []string
	entries := map[policy.Key]*policystore.Entry{}
	f := &policyFollower{
		entry: func(key policy.Key) (*policystore.Entry, bool) {
			entry, found := entries[key]
			return entry, found
		},
		enqueue: func(namespace string) { enqueued = append(enqueued, namespace) },
		known:   map[policy.Key]*policy.Policy{},
	}
	shop, shared := policy.Key{Namespace: "shop", Name: "limit"}, policy.Key{Name: "shared"}
	first, second := &policy.Policy{}, &policy.Policy{}
	for _, step := range []struct {
		what   string
		change func()
		want   []string
	}{
		{"a new policy", func() {
			entries[shop] = &policystore.Entry{Policy: first}
			f.PolicyChanged(shop)
		}, []string{"shop"}},
		{"its status", func() {
			entries[shop] = &policystore.Entry{Policy: first, ResourceVersion: "2"}
			f.PolicyChanged(shop)
		}, nil},
		{"its spec", func() {
			entries[shop] = &policystore.Entry{Policy: second}
			f.PolicyChanged(shop)
		}, []string{"shop"}},
		{"its end", func() {
			delete(entries, shop)
			f.PolicyChanged(shop)
		}, []string{"shop"}},
		{"a policy of the cluster", func() {
			entries[shared] = &policystore.Entry{Policy: first}
			f.PolicyChanged(shared)
		}, []string{""}},
		{"the labels of a namespace", func() { f.NamespaceChanged("lab") }, []string{"lab"}},
	} {
		enqueued = nil
		step.change()
		if diff := cmp.Diff(step.want, enqueued); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
	}
}
