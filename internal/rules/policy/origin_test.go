package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/policy"
)

func TestOrigins(t *testing.T) {
	entries := func(n int, entry string) string {
		return strings.TrimSuffix(strings.Repeat(entry+",", n), ",")
	}
	many := map[string]string{}
	var list []string
	for i := range 1000 {
		key := fmt.Sprintf("example.com/%d", i)
		many[key] = policy.BuiltIn
		list = append(list, key+"="+policy.BuiltIn)
	}
	tests := map[string]struct {
		record string
		want   map[string]string
	}{
		"none":             {"", nil},
		"two":              {"a=LoadBalancerPolicy/x,b=built-in", map[string]string{"a": "LoadBalancerPolicy/x", "b": "built-in"}},
		"damaged":          {"a,,=,b=c", map[string]string{"": "", "b": "c"}},
		"many":             {strings.Join(list, ","), many},
		"too many entries": {entries(1001, "a=b"), map[string]string{}},
		"too long":         {"a=" + strings.Repeat("b", 64<<10), map[string]string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := policy.Origins(map[string]string{policy.AnnotationDefaulted: test.record})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("origins (-want +got):\n%s", diff)
			}
		})
	}
}
