package doctor

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSteps(t *testing.T) {
	run := func(level Level) func(context.Context) Result {
		return func(context.Context) Result { return Result{Level: level} }
	}
	var got []Level
	for _, result := range Run(t.Context(), []Check{
		{"failed", nil, run(Fail)},
		{"needs the failed one", []string{"failed"}, run(OK)},
		{"needs the skipped one", []string{"needs the failed one"}, run(OK)},
		{"not applicable", nil, run(Skip)},
		{"needs the one that is not applicable", []string{"not applicable"}, run(OK)},
	}) {
		if strings.HasPrefix(result.Check, "needs") && result.Level == Skip && result.Found != "not run because of failed" {
			t.Errorf("%s: %s", result.Check, result.Found)
		}
		got = append(got, result.Level)
	}
	if diff := cmp.Diff([]Level{Fail, Skip, Skip, Skip, OK}, got); diff != "" {
		t.Errorf("unexpected levels (-want +got):\n%s", diff)
	}
}
