package chart

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// TestManaged tests what Helm and kube-controller-manager make of the chart together.
func TestManaged(t *testing.T) {
	t.Parallel()
	e := env.Start(t, env.Options{ControllerManager: true})
	t.Run("commands", func(t *testing.T) { checkCommands(t, e) })
	t.Run("drain", func(t *testing.T) { checkDrain(t, e) })
}

// checkCommands runs every block of shell commands in the documentation that runs Helm on the project's chart, as it is
// written except for the registry.
func checkCommands(t *testing.T, e *env.Env) {
	shell := newShell(t, e)
	first := shellBlocks(t, filepath.Join(shell.root, "charts", "quaymaster", "README.md"))[0]
	for _, page := range pages(t, shell.root) {
		blocks := shellBlocks(t, filepath.Join(shell.root, page))
		if len(blocks) == 0 {
			continue
		}
		t.Run(page, func(t *testing.T) {
			defer shell.reset(t)
			if !regexp.MustCompile(`helm (install|template|push)`).MatchString(blocks[0]) {
				shell.run(t, first)
			}
			installed := 0
			for _, block := range blocks {
				if strings.Contains(block, "helm install") {
					if installed++; installed > 1 {
						shell.reset(t)
					}
				}
				shell.run(t, block)
			}
		})
	}
}

// pages returns the paths of all pages of the documentation.
func pages(t *testing.T, root string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if entry.IsDir() && slices.Contains([]string{"bin", ".git", "tools"}, relative) {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			found = append(found, relative)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// ours matches a line of a code block that runs Helm on the project's chart or release. No pod runs here, so helm test
// has to wait for make e2e.
var ours = regexp.MustCompile(`^    +helm (install|upgrade|uninstall|template|push|pull|show|get)\b.*quaymaster`)

// shellBlocks returns the code blocks of a page with a line that is ours.
func shellBlocks(t *testing.T, file string) []string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	var block []string
	for line := range strings.Lines(string(raw) + "\n") {
		if strings.HasPrefix(line, "    ") {
			block = append(block, line)
			continue
		}
		if slices.ContainsFunc(block, ours.MatchString) {
			blocks = append(blocks, strings.Join(block, ""))
		}
		block = nil
	}
	return blocks
}

// firstYAML returns the first YAML block of a page.
func firstYAML(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "```yaml\n")
	block, _, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatalf("%s has no YAML block", file)
	}
	return block
}

// shell runs commands in a copy of the source folder with the files that the pages mention.
type shell struct {
	e *env.Env
	// root is the source folder, and dir the folder of links to its content.
	root, dir string
	variables []string
	// registry replaces REGISTRY.
	registry string
}

func newShell(t *testing.T, e *env.Env) *shell {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.Symlink(filepath.Join(root, entry.Name()), filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"token", "callers-ca.crt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(e.Authority(), filepath.Join(dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	catalog := firstYAML(t, filepath.Join(root, "docs", "guides", "own-catalog.md"))
	if err := os.WriteFile(filepath.Join(dir, "example.yaml"), []byte(catalog), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &shell{e: e, root: root, dir: dir}
	var authority string
	s.registry, authority = startRegistry(t)
	s.variables = append(os.Environ(), "KUBECONFIG="+e.AdminKubeconfig, "SSL_CERT_FILE="+authority, "MAKEFLAGS=", "MAKELEVEL=",
		"HELM_CACHE_HOME="+t.TempDir(), "PATH="+filepath.Join(root, "bin", "tools")+":"+os.Getenv("PATH"))
	const archive = "quaymaster-0.1.0.tgz"
	s.run(t, "make chart VERSION=v0.1.0 && ln -s bin/"+archive+" "+archive)
	return s
}

// run runs a block of commands, which must succeed.
func (s *shell) run(t *testing.T, block string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", strings.ReplaceAll(block, "REGISTRY", s.registry))
	cmd.Dir, cmd.Env = s.dir, s.variables
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s%s", err, block, out)
	}
}

// reset removes the release and its namespace with what it has besides, without the five seconds that the controller of
// namespaces waits.
func (s *shell) reset(t *testing.T) {
	t.Helper()
	s.run(t, "helm uninstall quaymaster --namespace "+env.Namespace+" --ignore-not-found")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}}
	err := s.e.Client.Delete(t.Context(), namespace)
	if apierrors.IsNotFound(err) {
		return
	}
	if err := errors.Join(
		err,
		s.e.Client.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(env.Namespace)),
		s.e.Client.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(env.Namespace)),
		s.e.Client.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace),
	); err != nil {
		t.Fatal(err)
	}
	namespace.Spec.Finalizers = nil
	if err := s.e.Client.SubResource("finalize").Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
}
