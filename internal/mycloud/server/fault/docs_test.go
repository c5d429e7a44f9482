package fault_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"quaymaster.dev/internal/mycloud/server/fault"
)

// TestReference: the example of the reference page is a valid plan, and the page has every field and every fault.
func TestReference(t *testing.T) {
	raw, err := os.ReadFile("../../../../docs/reference/mycloud-faults.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	_, example, _ := strings.Cut(page, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	plan, err := fault.Parse([]byte(example))
	if err != nil || len(plan.Rules) < 5 {
		t.Errorf("example: %v, %+v", err, plan)
	}
	var names []string
	for _, kind := range []reflect.Type{reflect.TypeFor[fault.Plan](), reflect.TypeFor[fault.Rule]()} {
		for field := range kind.Fields() {
			names = append(names, field.Tag.Get("json"))
		}
	}
	for _, kind := range []fault.Kind{fault.Status, fault.HTML, fault.NotFound, fault.Reset, fault.Truncate, fault.Stale} {
		names = append(names, string(kind))
	}
	for _, name := range names {
		if !strings.Contains(page, "\n| `"+name+"` | ") {
			t.Errorf("no row for %q", name)
		}
	}
}
