package reference

import (
	"fmt"
	"strings"

	"quaymaster.dev/internal/loadbalancer"
)

// AnnotationsPage is the reference of the DLB's own annotations, in Markdown.
func AnnotationsPage() string {
	var page strings.Builder
	fmt.Fprint(&page, "# Annotations of the DLB\n\n"+notice+
		"Every key begins with `"+loadbalancer.Prefix+"`. Values are case-sensitive and may not be empty or contain whitespace.\n"+
		"A key with a port form may also be written `<key>.<port number>` or `<key>.<port name>`: it then governs that port alone,\n"+
		"before the plain key. See [the rules between keys](../guides/annotations.md).\n\n"+
		"| key | type | must be | default | port form |\n|---|---|---|---|---|\n")
	keys := loadbalancer.Keys()
	for _, d := range keys {
		fmt.Fprintf(&page, "| [%s](#%s) | %s | %s | %s | %s |\n", d.Name, d.Name, d.Type(), cell(d.Allowed()), orNone(cell(d.Default)), yes(d.PortForm))
	}
	for _, d := range keys {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n    %s: %q\n\nMust be %s.\n", d.Name, prose(d.Help), d.Key, d.Example, prose(d.Allowed()))
		if d.Immutable {
			fmt.Fprintln(&page, "\n"+immutable)
		}
	}
	return page.String()
}

// immutable is what the reference says of keys that cannot change.
const immutable = "It is immutable: compared by its effective value, it may not change after the Service became a load balancer."

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
