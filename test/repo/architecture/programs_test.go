package architecture

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// callsByName matches a function that calls methods by a name that only the running program knows, in the linker's report
// about a program: templates do, for example.
var callsByName = regexp.MustCompile(`\S+ <ReflectMethod>`)

// TestProgramsCallNoMethodByName: with the tags of Makefile, no program of the image contains a function that calls methods by
// name, nor does quayctl. If one did, the linker would keep all methods of all types: half as much code more, and a third more
// memory in the webhooks. mycloud does so itself, because its configuration of HAProxy is a template.
func TestProgramsCallNoMethodByName(t *testing.T) {
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	tags := regexp.MustCompile(`(?m)^TAGS := (\S+)`).FindSubmatch(makefile)
	if tags == nil {
		t.Fatal("Makefile sets no TAGS")
	}
	for program, want := range map[string]bool{"quaymaster": false, "quaymaster-controllers": false, "quayctl": false, "mycloud": true} {
		found := callsByName.Find(dependencies(t, program, string(tags[1])))
		switch {
		case found != nil && !want:
			t.Errorf("%s contains %s; which package needs it, and can it do without?", program, found)
		case found == nil && want:
			t.Errorf("%s contains no function that calls methods by name: the test checks nothing", program)
		}
	}
}

// dependencies returns the linker's report about the functions of a program.
func dependencies(t *testing.T, program, tags string) []byte {
	t.Helper()
	// The go command may print what the linker has printed again when the program is up to date, for as long as the main package
	// is compiled in the same way. It is compiled without inlining here, so that only this test gets it.
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", tags, "-gcflags", "-l", "-ldflags", "-s -w -dumpdep",
		"-o", filepath.Join(t.TempDir(), program), module+"/cmd/"+program)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("build %s: %v: %s", program, err, out.Bytes()[max(0, out.Len()-2000):])
	}
	return out.Bytes()
}
