package review_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/builder"
)

// With any policies and catalogs, each annotation is parsed once per object and catalog that knows it. A default is
// parsed when it is added, because it is not in the object before.
func TestEachAnnotationIsParsedOnce(t *testing.T) {
	const prefix = loadbalancer.Prefix
	policies := []*policy.Policy{
		builder.ValidPolicy(t, ofNamespace, "limits", "rules: [{annotation: DLB-listener-maxqps, max: 20000}, {annotation: DLB-network-type, allowed: [private]},"+
			"{annotation: DLB-scheduler, allowed: [source-ip]}]\ndefaults: {DLB-network-type: private}"),
		builder.ValidPolicy(t, ofCluster, "shared", "defaults: {DLB-listener-idle-timeout: 30s, DLB-subnet-id: subnet-1}"),
	}
	oldSvc := builder.Service(builder.DLB("listener-maxqps", "30000"), builder.DLB("scheduler", "fastest"))
	newSvc := builder.Service(builder.DLB("listener-maxqps", "30000"), builder.DLB("scheduler", "slowest"), builder.DLB("listener-maxconn.web", "x"))
	given := map[string]int{prefix + "listener-maxqps": 1, prefix + "scheduler": 1, prefix + "listener-maxconn.web": 1}
	for name, test := range map[string]struct {
		old      *corev1.Service
		catalogs []string
		policies []*policy.Policy
		want     map[string]int
	}{
		"create":                   {nil, []string{"mycloud"}, nil, given},
		"create, by every catalog": {nil, library.BuiltIn().Names(), nil, given},
		"create, with policies":    {nil, library.BuiltIn().Names(), policies[:1], plus(given, "network-type", "listener-idle-timeout")},
		"update":                   {oldSvc, library.BuiltIn().Names(), nil, plus(given, "listener-maxqps", "scheduler")},
		"update, with errors and defaults": {
			oldSvc, library.BuiltIn().Names(), policies,
			plus(given, "listener-maxqps", "scheduler", "network-type", "listener-idle-timeout", "subnet-id", "network-type", "listener-idle-timeout", "subnet-id"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			parsed := map[string]int{}
			reviewer, err := review.New(catalog.Options{DefaultClass: true, Catalogs: test.catalogs, OnParse: func(key string) { parsed[key]++ }})
			if err != nil {
				t.Fatal(err)
			}
			reviewer.Review(test.old, newSvc, test.policies)
			if diff := cmp.Diff(test.want, parsed); diff != "" {
				t.Errorf("parsed (-want +got):\n%s", diff)
			}
		})
	}
}

// plus returns the counts with additional parses of keys.
func plus(given map[string]int, names ...string) map[string]int {
	all := maps.Clone(given)
	for _, name := range names {
		all[loadbalancer.Prefix+name]++
	}
	return all
}
