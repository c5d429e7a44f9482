package app

import (
	"bytes"
	"strings"
	"testing"
)

func TestDriftMustBeKnown(t *testing.T) {
	var out, errs bytes.Buffer
	code := Run(t.Context(), []string{"--drift=fix"}, &out, &errs)
	if code != 2 || !strings.Contains(errs.String(), "must be one of repair, report, off") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}
