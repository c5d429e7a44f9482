package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClassIsSetInTheCloudConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cloud.yaml")
	text := "clusterID: dev\nendpoint: http://127.0.0.1:1\ntokenFile: /absent\ndefaultClass: false\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := Run(t.Context(), []string{"--cloud-config=" + file, "--kubeconfig=/absent", "--default-class"}, &out, &errs)
	const want = "--default-class requires --without-cloud; set defaultClass in the cloud config"
	if code != 2 || !strings.Contains(errs.String(), want) {
		t.Errorf("exit code %d, want %q in %s", code, want, errs.String())
	}
}
