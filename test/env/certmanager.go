package env

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// InstallCertManagerCRDs installs the kinds of cert-manager that the webhooks apply, as its module has them, without its
// controllers. It returns when the API server serves them.
func (e *Env) InstallCertManagerCRDs(ctx context.Context) error {
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	if err != nil {
		return fmt.Errorf("find the CRDs of cert-manager: %w", err)
	}
	var crds []*unstructured.Unstructured
	for _, plural := range []string{"issuers", "certificates"} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "deploy", "crds", "cert-manager.io_"+plural+".yaml"))
		if err != nil {
			return fmt.Errorf("find the CRDs of cert-manager: %w", err)
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, crd); err != nil {
			return fmt.Errorf("read the CRD of %s: %w", plural, err)
		}
		if err := e.Client.Create(ctx, crd); err != nil {
			return fmt.Errorf("install the CRD of %s: %w", plural, err)
		}
		crds = append(crds, crd)
	}
	return e.waitServed(ctx, crds)
}
