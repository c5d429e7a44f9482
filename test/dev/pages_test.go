package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// tested are the pages whose commands are run, besides the README and all guides.
var tested = []string{"docs/operations/brakes.md", "docs/operations/cloud-availability.md"}

// TestPages runs the commands of pages on the demonstration, as a user enters them, and compares what they print with
// what the pages show. CONTRIBUTING.md describes the marks that pages have for this.
func TestPages(t *testing.T) {
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	guides, err := filepath.Glob("docs/guides/*.md")
	if err != nil || len(guides) < 10 {
		t.Fatalf("%d guides: %v", len(guides), err)
	}
	all, found := map[string][]block{}, 0
	for _, page := range slices.Concat([]string{"README.md"}, guides, tested) {
		content, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		if all[page], err = blocks(content); err != nil {
			t.Fatalf("%s: %v", page, err)
		}
		for _, b := range all[page] {
			if b.reason == "" {
				found += len(b.commands)
			}
		}
	}
	if found < 60 {
		t.Errorf("found only %d commands and blocks of commands", found)
	}
	d := startDemonstration(t, t.TempDir())
	initial := d.metadata(t)
	for _, page := range slices.Sorted(maps.Keys(all)) {
		t.Run(page, func(t *testing.T) {
			folder := d.copyOf(t, root)
			s := startShell(t, folder, d.environment(root))
			for i := range all[page] {
				d.follow(t, s, folder, page, &all[page][i])
			}
			d.restore(t, initial)
		})
	}
}

// copyOf returns a folder like the root of the repository, in which pages may create files.
func (d *demonstration) copyOf(t *testing.T, root string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"bin", "charts", "docs", "examples"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// environment is that of a user who has run ". .dev/env".
func (d *demonstration) environment(root string) []string {
	environment := os.Environ()
	for name, value := range d.env {
		environment = append(environment, name+"="+value)
	}
	return append(environment, "PATH="+filepath.Join(root, "bin")+":"+filepath.Join(root, "bin", "tools")+":"+os.Getenv("PATH"))
}

// follow does what a block says.
func (d *demonstration) follow(t *testing.T, s *shell, folder, page string, b *block) {
	t.Helper()
	if b.file != "" {
		name := filepath.Join(folder, b.file)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(b.text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.reason != "" || b.traffic && lacking() != "" {
		return
	}
	for _, c := range b.commands {
		at := fmt.Sprintf("%s:%d: %s", page, b.line, strings.TrimSpace(c.input))
		output, status, err := s.run(c.input)
		problem := b.problem(&c, output, status)
		for deadline := time.Now().Add(time.Minute); b.eventually && problem != "" && err == nil && time.Now().Before(deadline); {
			time.Sleep(500 * time.Millisecond)
			output, status, err = s.run(c.input)
			problem = b.problem(&c, output, status)
		}
		if err != nil {
			t.Fatalf("%s: %v:\n%s", at, err, output)
		}
		if problem != "" {
			t.Errorf("%s: %s", at, problem)
		}
	}
}

// problem returns what is wrong with the output of a command, or an empty string.
func (b *block) problem(c *command, output string, status int) string {
	if strings.TrimSpace(c.output) != "" {
		if diff := b.differs(c.output, output); diff != "" {
			return fmt.Sprintf("prints, with status %d, other than the page (-page +printed):\n%s", status, diff)
		}
		return ""
	}
	if status != 0 {
		return fmt.Sprintf("status %d:\n%s", status, output)
	}
	return ""
}

// metadata returns the labels and annotations of what pages mark: the namespaces and Nodes, by kind and name.
func (d *demonstration) metadata(t *testing.T) map[string]metav1.ObjectMeta {
	t.Helper()
	found := map[string]metav1.ObjectMeta{}
	for kind, object := range d.marked(t) {
		found[kind] = metav1.ObjectMeta{Labels: maps.Clone(object.GetLabels()), Annotations: maps.Clone(object.GetAnnotations())}
	}
	return found
}

func (d *demonstration) marked(t *testing.T) map[string]client.Object {
	t.Helper()
	found := map[string]client.Object{}
	var namespaces corev1.NamespaceList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&namespaces, &nodes} {
		if err := d.kube.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	for i := range namespaces.Items {
		found["namespace/"+namespaces.Items[i].Name] = &namespaces.Items[i]
	}
	for i := range nodes.Items {
		found["node/"+nodes.Items[i].Name] = &nodes.Items[i]
	}
	return found
}

// restore removes what a page has left, so that the next one starts as on a new demonstration.
func (d *demonstration) restore(t *testing.T, initial map[string]metav1.ObjectMeta) {
	t.Helper()
	var services corev1.ServiceList
	if err := d.kube.List(t.Context(), &services); err != nil {
		t.Fatal(err)
	}
	for _, service := range services.Items {
		if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
			d.must(t, "delete", "service", "--namespace", service.Namespace, service.Name, "--timeout=1m")
		}
	}
	d.must(t, "delete", "clusterloadbalancerpolicies", "--all")
	d.must(t, "delete", "loadbalancerpolicies", "--all", "--all-namespaces")
	d.must(t, "delete", "pvc,deployments", "--all", "--wait=false")
	for name, object := range d.marked(t) {
		before, known := initial[name]
		if !known {
			d.must(t, "delete", name, "--timeout=1m")
			continue
		}
		for key := range object.GetLabels() {
			if _, had := before.Labels[key]; !had {
				d.must(t, append(strings.Split("label "+strings.Replace(name, "/", " ", 1), " "), key+"-")...)
			}
		}
		for key := range object.GetAnnotations() {
			if _, had := before.Annotations[key]; !had {
				d.must(t, append(strings.Split("annotate "+strings.Replace(name, "/", " ", 1), " "), key+"-")...)
			}
		}
	}
}
