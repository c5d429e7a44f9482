package reference

import (
	"regexp"
	"strings"
	"testing"

	"quaymaster.dev/internal/catalog"
)

// pages are all that are made of the catalogs, by name.
func pages() map[string]string {
	all := map[string]string{
		"catalogs": CatalogsPage(catalog.Names()), "findings": FindingsPage(Chapters()),
	}
	for _, name := range catalog.Names() {
		c, _ := catalog.Find(name)
		all[name] = Page(c)
	}
	return all
}

var (
	inPage  = regexp.MustCompile(`\]\(#([^)]*)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// separator is a | that is not escaped.
	separator = regexp.MustCompile(`(?:^|[^\\])\|`)
)

// What a text says must not break a table, and links must lead somewhere.
func TestPages(t *testing.T) {
	for name, page := range pages() {
		anchors := map[string]int{}
		for _, h := range heading.FindAllStringSubmatch(page, -1) {
			anchors[anchor(h[1])]++
		}
		for _, link := range inPage.FindAllStringSubmatch(page, -1) {
			if anchors[link[1]] != 1 {
				t.Errorf("%s: %d headings are %s", name, anchors[link[1]], link[1])
			}
		}
		columns := 0
		for line := range strings.Lines(page) {
			n := len(separator.FindAllString(line, -1))
			switch {
			case !strings.HasPrefix(line, "|"):
				columns = 0
			case columns == 0:
				columns = n
			case n != columns:
				t.Errorf("%s: %d separators instead of %d: %s", name, n, columns, line)
			}
		}
	}
}

func TestPageOfCatalog(t *testing.T) {
	page := pages()["azure"]
	for _, want := range []string{
		"# Annotations of Azure\n\n<!-- Made from the code by make generate. -->\n\n",
		"\nCatalog `azure`, read from github.com/kubernetes-sigs/cloud-provider-azure at ",
		"\nServices that it acts on: those without `loadBalancerClass`.",
		"\n| key | type | default |\n|---|---|---|\n",
		"\n| [service.beta.kubernetes.io/port_{port}_no_lb_rule](#servicebetakubernetesioport_port_no_lb_rule) | bool | false |\n",
		"\n## service.beta.kubernetes.io/port_{port}_no_lb_rule\n\n",
		"\n    service.beta.kubernetes.io/port_80_no_lb_rule: \"true\"\n",
		"\nThe key is for one port.\n", "\nDefault: false.\n", "\nSource: pkg/", `or \* for all.`,
		"\n### azure-unknown-key\n\n", "\n## What is left out\n\n- `",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("lacks %q", want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"a|b <c> *.d":  `a\|b \<c> \*.d`,
		"`<*>` and *":  "`<*>` and \\*",
		"`a|b`":        "`a\\|b`",
		"plain _text_": "plain _text_",
	} {
		if got := cell(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// What code hosts make of headings.
func TestAnchor(t *testing.T) {
	for heading, want := range map[string]string{
		"metallb.io/loadBalancerIPs": "metallbioloadbalancerips",
		"example.com/port_{port}-x":  "examplecomport_port-x",
		"What is left out":           "what-is-left-out",
	} {
		if got := anchor(heading); got != want {
			t.Errorf("%s: got %q, want %q", heading, got, want)
		}
	}
}
