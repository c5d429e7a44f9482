package template_test

import (
	"fmt"
	"strings"
	"testing"

	"quaymaster.dev/internal/rules/catalog/library"
)

// BenchmarkManyServices measures the most expensive objects: with as many Services as are validated, and unknown keys of
// every catalog, which the old object has, too.
func BenchmarkManyServices(b *testing.B) {
	by := validator(b, nil, library.BuiltIn().Services()...)
	stems := []string{"aws-load-balancr", "dlb-listner-maxqsp", "azure-load-balancr-intrnl", "oci-load-balncer-shap"}
	for _, keys := range []int{1, 3, 20} {
		var brokers []string
		for i := range 100 {
			var pairs []string
			for k := range keys {
				pairs = append(pairs, fmt.Sprintf("service.beta.kubernetes.io/%s-%d-%d", stems[k%len(stems)], i, k), "v")
			}
			brokers = append(brokers, `{"annotations":`+annotations(pairs...)+`}`)
		}
		old := kafka(listener("loadbalancer", "{}", strings.Join(brokers, ",")))
		b.Run(fmt.Sprintf("%d keys", keys), func(b *testing.B) {
			for b.Loop() {
				ask(b, by, old, strings.ReplaceAll(old, `"v"`, `"w"`))
			}
		})
	}
}
