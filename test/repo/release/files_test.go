package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"debug/macho"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var dist = flag.String("dist", "", "folder with the files that make release has written; without it, they are not tested")

// TestArchives: each archive has programs for its platform that need no libraries, and what users need to call them.
func TestArchives(t *testing.T) {
	manual := []string{"LICENSE", "THIRD-PARTY-LICENSES", "completion/%.bash", "completion/%.fish", "completion/%.zsh", "man/man1/%.1.gz"}
	tests := map[string]struct {
		programs, files []string
		platforms       []string
	}{
		"quaymaster": {[]string{"quaymaster", "quaymaster-controllers"}, manual[:2], []string{"linux_amd64", "linux_arm64"}},
		"mycloud":    {[]string{"mycloud"}, manual, []string{"linux_amd64", "linux_arm64"}},
		"quayctl":    {[]string{"quayctl"}, manual, []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"}},
	}
	for name, tt := range tests {
		for _, platform := range tt.platforms {
			t.Run(name+" "+platform, func(t *testing.T) {
				files := unpack(t, one(t, name+"_*_"+platform+".tar.gz"))
				for _, program := range tt.programs {
					if got := platformOf(t, files[program]); got != platform {
						t.Errorf("%s is for %s", program, got)
					}
				}
				for _, file := range tt.files {
					if file = strings.ReplaceAll(file, "%", name); len(files[file]) == 0 {
						t.Errorf("no %s", file)
					}
				}
				if name == "mycloud" && !strings.Contains(string(files["THIRD-PARTY-LICENSES"]), "npm:uplot\n") {
					t.Error("the license of the plots is missing")
				}
			})
		}
	}
}

// TestChecksums: SHA256SUMS is that of every other file, except for its own signature.
func TestChecksums(t *testing.T) {
	sums := map[string]string{}
	for line := range strings.Lines(string(read(t, one(t, "SHA256SUMS")))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	entries, err := os.ReadDir(*dist)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasPrefix(name, "SHA256SUMS") && sums[name] != sumOf(t, filepath.Join(*dist, name)) {
			t.Errorf("the checksum of %s is %q", name, sums[name])
		}
	}
}

// TestPlugin: krew finds an archive for each platform, with its checksum.
func TestPlugin(t *testing.T) {
	var plugin struct {
		Spec struct {
			Version   string
			Platforms []struct{ URI, SHA256, Bin string }
		}
	}
	unmarshal(t, string(read(t, one(t, "quay.yaml"))), &plugin)
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+`).MatchString(plugin.Spec.Version) || len(plugin.Spec.Platforms) != 4 {
		t.Errorf("version %q for %d platforms", plugin.Spec.Version, len(plugin.Spec.Platforms))
	}
	for _, p := range plugin.Spec.Platforms {
		archive := p.URI[strings.LastIndex(p.URI, "/")+1:]
		if p.SHA256 != sumOf(t, one(t, archive)) || unpack(t, one(t, archive))[p.Bin] == nil {
			t.Errorf("%s: wrong checksum, or no %s", archive, p.Bin)
		}
	}
}

// TestMaterials: each archive has a bill of materials with the modules that are linked into its programs.
func TestMaterials(t *testing.T) {
	for archive, module := range map[string]string{
		"quaymaster_*_linux_arm64": "k8s.io/cloud-provider", "quayctl_*_darwin_arm64": "k8s.io/client-go", "mycloud_*_linux_amd64": "go.etcd.io/bbolt",
	} {
		var bom struct {
			BomFormat  string
			Components []struct{ Name, Version, Purl string }
		}
		unmarshal(t, string(read(t, one(t, archive+".cdx.json"))), &bom)
		names := map[string]bool{}
		for _, c := range bom.Components {
			names[c.Name] = c.Version != "" && strings.HasPrefix(c.Purl, "pkg:golang/"+c.Name+"@")
		}
		if bom.BomFormat != "CycloneDX" || !names[module] || !names["std"] {
			t.Errorf("%s: no %s or std in %v", archive, module, bom.Components)
		}
	}
}

// TestPackages: Debian can read the packages, and they install services, manuals and what they depend on.
func TestPackages(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	for pattern, want := range map[string][]string{
		"quayctl_*_amd64.deb":    {"./usr/bin/quayctl", "./usr/bin/kubectl-quay -> quayctl", "./usr/share/man/man1/quayctl-lint.1.gz", "./usr/share/doc/quayctl/THIRD-PARTY-LICENSES"},
		"quayctl_*_arm64.deb":    {"./usr/bin/quayctl"},
		"mycloud_*_amd64.deb":    {"./usr/bin/mycloud", "./usr/lib/systemd/system/mycloud.service", "./etc/default/mycloud"},
		"mycloud_*_arm64.deb":    {"./usr/share/bash-completion/completions/mycloud"},
		"mycloud-edge_*_all.deb": {"./usr/lib/systemd/system/mycloud-edge.service", "./etc/default/mycloud-edge"},
	} {
		contents := run(t, "dpkg-deb", "--contents", one(t, pattern))
		for _, file := range want {
			if !strings.Contains(contents, " "+file+"\n") {
				t.Errorf("%s has no %s:\n%s", pattern, file, contents)
			}
		}
		if strings.Contains(contents, "rw-rw-") || !strings.Contains(contents, " root/root ") {
			t.Errorf("%s has files that are not root's:\n%s", pattern, contents)
		}
	}
	depends := run(t, "dpkg-deb", "--field", one(t, "mycloud-edge_*_all.deb"), "Depends", "Recommends")
	needed := regexp.MustCompile(`[a-z0-9]+:([a-z0-9]+)`).FindAllStringSubmatch(string(read(t, filepath.Join(root, "tools", "edge-packages.sh"))), -1)
	if len(needed) < 6 {
		t.Errorf("found only %v in tools/edge-packages.sh", needed)
	}
	for _, name := range needed {
		if name[1] == "wrk" { // for tests only
			continue
		}
		if !strings.Contains(depends, name[1]) {
			t.Errorf("mycloud-edge does not bring %s, which tools/edge-packages.sh installs:\n%s", name[1], depends)
		}
	}
}

// TestImages: the list has what the chart installs.
func TestImages(t *testing.T) {
	if list := strings.Fields(string(read(t, one(t, "images.txt")))); len(list) != 1 || !strings.Contains(makeImage(t), " "+list[0]+" ") {
		t.Errorf("images.txt has %v", list)
	}
}

// one returns the only file in dist that matches.
func one(t *testing.T, pattern string) string {
	t.Helper()
	if *dist == "" {
		t.Skip("run make test-release")
	}
	files, err := filepath.Glob(filepath.Join(*dist, pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files match %s: %v", len(files), pattern, err)
	}
	return files[0]
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func sumOf(t *testing.T, file string) string {
	t.Helper()
	sum := sha256.Sum256(read(t, file))
	return hex.EncodeToString(sum[:])
}

// unpack returns the files of an archive. All of them are root's.
func unpack(t *testing.T, archive string) map[string][]byte {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(read(t, archive)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for entries := tar.NewReader(zip); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s belongs to %d %q", header.Name, header.Uid, header.Uname)
		}
		if files[header.Name], err = io.ReadAll(entries); err != nil {
			t.Fatal(err)
		}
	}
}

// platformOf returns the system and the architecture of a program.
func platformOf(t *testing.T, program []byte) string {
	t.Helper()
	if file, err := elf.NewFile(bytes.NewReader(program)); err == nil {
		if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			t.Error("the program is linked dynamically")
		}
		return map[elf.Machine]string{elf.EM_X86_64: "linux_amd64", elf.EM_AARCH64: "linux_arm64"}[file.Machine]
	}
	file, err := macho.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	return map[macho.Cpu]string{macho.CpuAmd64: "darwin_amd64", macho.CpuArm64: "darwin_arm64"}[file.Cpu]
}
