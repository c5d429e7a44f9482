package architecture

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// callsByName are files of libraries, after their packages, that call methods by name; the former by html/template.
var callsByName = []string{"golang.org/x/net/trace trace.go", "github.com/go-playground/validator/v10 no_validate_fn.go"}

// TestProgramsCallNoMethodByName: with the tags of Makefile, no program contains the two libraries' code that calls
// methods by a name that only the running program knows. If one did, the linker would keep all methods of all types:
// half as much code more. (mycloud does so itself: its configuration of HAProxy is a template.)
func TestProgramsCallNoMethodByName(t *testing.T) {
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	tags := regexp.MustCompile(`(?m)^TAGS := (\S+)`).FindSubmatch(makefile)
	if tags == nil {
		t.Fatal("Makefile sets no TAGS")
	}
	if found := linked(t, ""); len(found) != len(callsByName) {
		t.Errorf("without tags, the programs contain only %q of %q: the test checks nothing", found, callsByName)
	}
	if found := linked(t, string(tags[1])); len(found) > 0 {
		t.Errorf("the programs contain %q; which package needs them, and which tag leaves them out?", found)
	}
}

// linked returns which of the files that call methods by name are compiled into the programs of the image and quayctl.
func linked(t *testing.T, tags string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", tags, "-f", "{{range .GoFiles}}{{$.ImportPath}} {{.}}\n{{end}}",
		module+"/cmd/quaymaster", module+"/cmd/quaymaster-controllers", module+"/cmd/quayctl")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if slices.Contains(callsByName, line) {
			found = append(found, line)
		}
	}
	return found
}
