// Package cosign tests the signatures of a release: the commands of docs/operations/verify.md accept what make release and
// make sign have signed, refuse everything else, and connect to no other host than the registry.
package cosign

import (
	"errors"
	"flag"
	"io"
	"log"
	"math/rand"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

var (
	dist = flag.String("dist", "", "folder with the files of a release; without it, nothing is tested")
	keys = flag.String("keys", "", "folder with the key pair that has signed their checksums, cosign.key and cosign.pub")
)

func TestSignatures(t *testing.T) {
	if *dist == "" {
		t.Skip("run make test-release")
	}
	host, old, others := serve(t, true), serve(t, false), t.TempDir()
	run(t, others, "cosign generate-key-pair")
	platform := publish(t, host+"/ours", *keys)
	publish(t, old+"/ours", *keys)
	publish(t, host+"/theirs", others)
	publish(t, host+"/unsigned", "")
	commands := append(documented(t), "cosign verify --key cosign.pub --insecure-ignore-tlog REGISTRY/quaymaster@"+platform,
		"helm pull oci://registry.example.com/charts/quaymaster --version 0.1.0 --plain-http")

	for name, tt := range map[string]struct {
		// registry and keys are what the user has got, and added is a line that SHA256SUMS did not have when it was signed.
		registry, keys, added string
		// refused matches the commands that must fail.
		refused string
	}{
		"signed":                     {host + "/ours", *keys, "", `^$`},
		"signed in an old registry":  {old + "/ours", *keys, "", `^$`},
		"changed checksums":          {host + "/ours", *keys, strings.Repeat("0", 64) + "  added\n", `^cosign verify-blob `},
		"image and chart of another": {host + "/theirs", *keys, "", `^cosign verify `},
		"unsigned image and chart":   {host + "/unsigned", *keys, "", `^cosign verify `},
		"another public key":         {host + "/ours", others, "", `^cosign verify`},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			run(t, folder, "cp "+*dist+"/SHA256SUMS* "+*dist+"/images.txt "+tt.keys+"/cosign.pub . && printf '"+tt.added+"' >>SHA256SUMS")
			for _, command := range commands {
				command = strings.NewReplacer("REGISTRY", tt.registry, "registry.example.com", tt.registry+"/site").Replace(command)
				out, err := shell(t, folder, command)
				if want := regexp.MustCompile(tt.refused).MatchString(command); want != (err != nil) {
					t.Errorf("%s: %v, want refused %t\n%s", command, err, want, out)
				}
			}
		})
	}
}

// serve starts a registry on the loopback interface and returns its address. Older registries cannot list the signatures
// of an image; for those, cosign keeps a list under a tag.
func serve(t *testing.T, lists bool) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(lists)))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// documented returns the commands of the page.
func documented(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations/verify.md")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for line := range strings.Lines(string(page)) {
		if command, is := strings.CutPrefix(line, "    "); is {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	if len(commands) < 7 {
		t.Fatalf("the page has only the commands %q", commands)
	}
	return commands
}

// publish pushes an image and the chart, and signs them with the key in a folder, if there is one. It returns the digest
// of the image for one platform.
func publish(t *testing.T, registry, keys string) string {
	t.Helper()
	image, err := name.NewTag(registry + "/quaymaster:0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	// Signatures do not depend on what is in the image. It is always the same one, for two platforms.
	index, err := random.Index(1024, 1, 2, random.WithSource(rand.NewSource(1)))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err = errors.Join(err, remote.WriteIndex(image, index)); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pushed := run(t, t.TempDir(), "helm package "+root+"/charts/quaymaster --version 0.1.0 && "+
		"helm push quaymaster-0.1.0.tgz oci://"+registry+"/charts --plain-http")
	if keys != "" {
		chart := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(pushed)
		run(t, root, "make sign COSIGN_KEY="+keys+"/cosign.key IMAGE="+registry+"/quaymaster@"+digest.String()+
			" CHART="+registry+"/charts/quaymaster@"+chart)
	}
	return manifest.Manifests[0].Digest.String()
}

// run returns what a command prints, which must succeed.
func run(t *testing.T, folder, command string) string {
	t.Helper()
	out, err := shell(t, folder, command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// shell runs a command that can connect to this machine only: a proxy for all other hosts does not exist.
func shell(t *testing.T, folder, command string) (string, error) {
	t.Helper()
	tools, err := filepath.Abs("../../bin/tools")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "MAKEFLAGS=",
		"COSIGN_PASSWORD=test", "HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
