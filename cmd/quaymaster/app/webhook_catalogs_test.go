package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/webhook/service"
)

const exampleCatalog = `name: example
title: Example Cloud
controller: github.com/example/ccm
version: v1.0.0
date: "2026-10-01"
help: The controller refuses what it cannot parse.
prefixes: [lb.example.com/]
owns: {noClass: true}
---
annotations:
- name: lb.example.com/size
  help: The size.
  type: enum
  values: [small, large]
  onInvalid: refused
  source: [docs]
  valid: small
  invalid: huge
`

// A catalog file that changes is used without a restart, unless it is invalid.
func TestCatalogFilesAreReloaded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "example.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(exampleCatalog)
	o, fs := &webhookOptions{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	o.addFlags(fs)
	if err := fs.Parse([]string{"--catalogs=example", "--catalog-file=" + filepath.Dir(file)}); err != nil {
		t.Fatal(err)
	}
	if errs := o.selectCatalogs(); len(errs) > 0 {
		t.Fatal(errs)
	}
	write(strings.Replace(exampleCatalog, "small, large", "small, large, huge", 1)) // while the program starts
	s := newServices(service.Options{Reviewer: o.reviewer}, nil, o.catalogs.Files(), o.sources, o.reviewerWith)
	metrics.NewKubeRegistry().MustRegister(s.broken)
	denied := func() bool {
		svc := builder.Service()
		svc.Annotations = map[string]string{"lb.example.com/size": "huge"}
		return finding.Deny(s.options.Reviewer.Review(nil, svc, nil))
	}
	if !denied() {
		t.Error("the first catalog is not used")
	}
	if s.reload(klog.Background()); denied() {
		t.Error("a change during the start is not seen")
	}
	for _, step := range []struct {
		name, text string
		denied     bool
		broken     float64
	}{
		{"a changed file", strings.Replace(exampleCatalog, "[small, large]", "[small, huge]", 1), false, 0},
		{"a broken file", strings.Replace(exampleCatalog, "type: enum", "type: enumeration", 1), false, 1},
		{"the first file again", exampleCatalog, true, 0},
	} {
		write(step.text)
		before := s.validator.Load()
		s.reload(klog.Background())
		if got := denied(); got != step.denied {
			t.Errorf("%s: denied %t, want %t", step.name, got, step.denied)
		}
		if got, err := testutil.GetGaugeMetricValue(s.broken); err != nil || got != step.broken {
			t.Errorf("%s: the metric is %v (%v), want %v", step.name, got, err, step.broken)
		}
		if kept := s.validator.Load() == before; kept != (step.broken == 1) {
			t.Errorf("%s: the former validator is in use: %t", step.name, kept)
		}
	}
}
