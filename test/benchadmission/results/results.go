// Package results writes the results of a benchmark into a page of the documentation.
package results

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"k8s.io/client-go/discovery"

	"quaymaster.dev/test/env"
)

// Begin returns the line of a page after which the results of a make target begin.
func Begin(target string) string {
	return "<!-- Results of make " + target + "; do not edit. -->"
}

// End is the line of a page before which results end.
const End = "<!-- End of results. -->"

// Write replaces the results of a make target in a page.
func Write(file, target, results string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, begins := bytes.Cut(page, []byte(Begin(target)))
	_, after, ends := bytes.Cut(rest, []byte(End))
	if !begins || !ends {
		return fmt.Errorf("write %s: it must contain %q and then %q", file, Begin(target), End)
	}
	text := slices.Concat(before, []byte(Begin(target)+"\n\n"+strings.TrimSpace(results)+"\n\n"+End), after)
	return errors.Join(os.WriteFile(file, text, 0o600), os.Chmod(file, 0o644)) //nolint:gosec // a public page
}

// Versions returns the programs that take part in a benchmark, and modules of the benchmark itself, with their versions.
func Versions(ctx context.Context, e *env.Env, modules ...string) ([]string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(e.Admin)
	if err != nil {
		return nil, err
	}
	server, err := client.ServerVersion()
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, program := range []struct {
		name string
		find func(string) (string, error)
		arg  string
	}{{"quayctl", env.Program, "version"}, {"etcd", env.Tool, "--version"}} {
		path, err := program.find(program.name)
		if err != nil {
			return nil, err
		}
		output, err := env.Run(ctx, "", path, program.arg)
		if err != nil {
			return nil, err
		}
		line, _, _ := strings.Cut(output.Stdout, "\n")
		line, _, _ = strings.Cut(strings.TrimPrefix(line, "etcd Version: "), " ")
		versions = append(versions, line)
	}
	list := []string{"Quaymaster " + versions[0], "kube-apiserver " + server.GitVersion, "etcd v" + versions[1]}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if slices.Contains(modules, module.Path) {
				list = append(list, module.Path[strings.LastIndex(module.Path, "/")+1:]+" "+module.Version)
			}
		}
	}
	return append(list, strings.Replace(runtime.Version(), "go", "Go ", 1)), nil
}
