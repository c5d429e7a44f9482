// Command gen writes the reference pages that come from the code, into the folder given as its argument.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/lint"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/rules"
	"quaymaster.dev/internal/volume"
	policywebhook "quaymaster.dev/webhook/policy"
	"quaymaster.dev/webhook/service"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen FOLDER")
		os.Exit(2)
	}
	pages := map[string][]byte{
		"annotations.md": annotations(loadbalancer.Keys()),
		"findings.md": findings([]chapter{
			{"Manifests, before any cluster sees them", lint.Rules()},
			{"Services of type LoadBalancer", loadbalancer.Rules()},
			{"Services under policies", slices.Concat(policy.Rules(), service.Rules())},
			{"Policies", slices.Concat(policy.DefinitionRules(), policywebhook.Rules())},
			{"PersistentVolumes", volume.ZoneRules()},
			{"PersistentVolumeClaims", volume.GrowthRules()},
		}),
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), page, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}

const notice = "<!-- Made from the code by make generate. -->\n\n"

func annotations(keys []*annotation.Descriptor) []byte {
	var page bytes.Buffer
	fmt.Fprint(&page, "# Annotations of the DLB\n\n"+notice+
		"Every key begins with `"+loadbalancer.Prefix+"`. Values are case-sensitive and may not be empty or contain whitespace.\n"+
		"A key with a port form may also be written `<key>.<port number>` or `<key>.<port name>`: it then governs that port alone,\n"+
		"before the plain key. See [the rules between keys](../guides/annotations.md).\n\n"+
		"| key | type | must be | default | port form |\n|---|---|---|---|---|\n")
	for _, d := range keys {
		fmt.Fprintf(&page, "| [%s](#%s) | %s | %s | %s | %s |\n", d.Name, d.Name, d.Type(), d.Allowed(), orNone(d.Default), yes(d.PortForm))
	}
	for _, d := range keys {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n    %s: %q\n\nMust be %s.\n", d.Name, d.Help, d.Key, d.Example, d.Allowed())
		if d.Immutable {
			fmt.Fprintln(&page, "\nIt is immutable: compared by its effective value, it may not change after the Service became a load balancer.")
		}
	}
	return page.Bytes()
}

// chapter are the findings about one thing.
type chapter struct {
	title string
	rules []rules.Rule
}

func findings(chapters []chapter) []byte {
	var page bytes.Buffer
	fmt.Fprint(&page, "# Findings\n\n"+notice+
		"What Quaymaster may say of an object. The ids are stable: they stand in metrics, in the API server's audit log and in\n"+
		"machine-readable output. The severity is that of a mistake that a request introduces: what was so before only warns, and\n"+
		"policies have an enforcement of their own.\n")
	for _, c := range chapters {
		fmt.Fprintf(&page, "\n## %s\n", c.title)
		for _, rule := range c.rules {
			fmt.Fprintf(&page, "\n### %s\n\n%s (%s)\n", rule.ID, rule.Help, rule.Severity)
		}
	}
	return page.Bytes()
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
