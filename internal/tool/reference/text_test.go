package reference

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/finding"
)

func TestText(t *testing.T) {
	const help = "Words that go on and on until there is no more room for them in a line of a terminal, so that it breaks."
	e := Entry{
		Catalog: "c", Title: "Cloud", Key: "example.com/port-{port}", Aliases: []string{"example.com/old-{port}"}, Help: help, Type: "int",
		Allowed: "an integer", Rule: "min=1", PortForm: "example.com/port-{port}", Deprecated: "write x", Rules: []string{"One.", "Two."}, Example: `"1"`,
		From: "github.com/example/cloud v1", Source: []string{"a.go:1", "b.go:2"},
	}
	const want = `example.com/port-{port}
  of Cloud (catalog c)

  Words that go on and on until there is no more room for them in a line of a
  terminal, so that it breaks.

  type       int
  must be    an integer
  rule       min=1
  also       example.com/old-{port}
  default    none
  per port   example.com/port-{port}
  change     possible
  deprecated write x
  note       One.
  note       Two.
  example    example.com/port-80: "\"1\""
  source     github.com/example/cloud v1
             a.go:1
             b.go:2
`
	if diff := cmp.Diff(want, e.Text()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Users do not set what a controller writes, so its default is not shown.
func TestTextOfWrittenKeys(t *testing.T) {
	text := Entry{Key: "k", Written: true}.Text()
	if !strings.Contains(text, "written    by the controller\n") || strings.Contains(text, "default") {
		t.Error(text)
	}
}

func TestTextOfFindings(t *testing.T) {
	f := Finding{ID: "x-y", Severity: finding.Warning, About: "things", Help: "Something.", Page: "p.md#x-y"}
	const want = "x-y\n  a finding (warning) about things\n\n  Something.\n\n  page       p.md#x-y\n"
	if diff := cmp.Diff(want, f.Text()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
