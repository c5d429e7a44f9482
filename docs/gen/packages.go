package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/doc"
	"io"
	"os/exec"
	"slices"
	"strings"
)

const module = "quaymaster.dev/"

// programs are the commands that are shipped, in the order of the columns.
var programs = []string{"quaymaster", "quaymaster-controllers", "quayctl", "mycloud"}

// sections are the folders of the page, in its order, with their headings. The first that a package is in has it.
var sections = []struct{ folder, heading string }{
	{"cmd", "Programs"},
	{"webhook", "Admission"},
	{"certs", "Certificates"},
	{"controllers", "Controllers"},
	{"provider", "Provider"},
	{"api", "APIs"},
	{"internal/rules", "Rules"},
	{"internal/kube", "What is kept in the cluster"},
	{"internal/tool", "What only quayctl does"},
	{"internal/mycloud/server", "Cloud: the server"},
	{"internal/mycloud/edge", "Cloud: the data plane"},
	{"internal/mycloud", "Cloud: the client"},
	{"internal", "What all programs share"},
	{"test", "Tests"},
	{"", "Documentation and examples"},
}

// golang is a package as go list describes it.
type golang struct {
	ImportPath, Doc string
	GoFiles         []string
}

// packagesPage lists every package of the project, with the programs that contain it.
func packagesPage(ctx context.Context) (string, error) {
	all, err := list(ctx, "./...")
	if err != nil {
		return "", err
	}
	contains := map[string][]string{}
	for _, program := range programs {
		linked, err := list(ctx, "-deps", "./cmd/"+program)
		if err != nil {
			return "", err
		}
		for _, p := range linked {
			contains[p.ImportPath] = append(contains[p.ImportPath], program)
		}
	}
	tables := make([][]string, len(sections))
	for _, p := range all {
		path, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours || len(p.GoFiles) == 0 {
			continue
		}
		i := slices.IndexFunc(sections, func(s struct{ folder, heading string }) bool {
			return s.folder == "" || path == s.folder || strings.HasPrefix(path, s.folder+"/")
		})
		var row strings.Builder
		fmt.Fprintf(&row, "| `%s` | %s |", path, contents(p.Doc))
		if s := sections[i].folder; s != "test" && s != "" {
			for _, program := range programs {
				mark := ""
				if slices.Contains(contains[p.ImportPath], program) {
					mark = "✓"
				}
				row.WriteString(" " + mark + " |")
			}
		}
		tables[i] = append(tables[i], row.String())
	}
	var page strings.Builder
	page.WriteString("# Packages\n\nEvery Go package of the project that is not only a test, and which programs contain it (✓): `quaymaster` (the\n" +
		"webhooks), `quaymaster-controllers`, `quayctl` and `mycloud` (server, client and edges of the cloud). If you only work on\n" +
		"one program, you can ignore what it does not contain.\n")
	for i, s := range sections {
		head, rule := "| package | contents |", "|---|---|"
		if s.folder != "test" && s.folder != "" {
			head, rule = head+" webhooks | controllers | quayctl | mycloud |", rule+":-:|:-:|:-:|:-:|"
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s\n%s\n%s\n", s.heading, head, rule, strings.Join(tables[i], "\n"))
	}
	return page.String(), nil
}

// contents returns what the comment of a package says after its name.
func contents(comment string) string {
	text := new(doc.Package).Synopsis(comment)
	words := strings.SplitN(text, " ", 3)
	if len(words) == 3 && (words[0] == "Package" || words[0] == "Command") {
		text = words[2]
	}
	return strings.ReplaceAll(text, "|", `\|`)
}

// list runs go list.
func list(ctx context.Context, args ...string) ([]golang, error) {
	args = append([]string{"list", "-json=ImportPath,Doc,GoFiles"}, args...)
	out, err := exec.CommandContext(ctx, "go", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", strings.Join(args, " "), err)
	}
	var packages []golang
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p golang
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}
