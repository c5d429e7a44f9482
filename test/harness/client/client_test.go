// Package client tests the example of a client that is generated from the API's OpenAPI document.
package client

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/cloud"
)

// TestGeneratedClient generates the client of the example, and lists more load balancers with it than fit on a page.
func TestGeneratedClient(t *testing.T) {
	c := cloud.Start(t, 0)
	const count = 101
	for i := range count {
		spec := cloudv1.LoadBalancerSpec{
			Name: fmt.Sprintf("web-%d", i), LoadBalancerFields: cloudv1.LoadBalancerFields{
				Scheme: cloudv1.SchemePublic, Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
			},
		}
		if _, _, err := c.Client.CreateLoadBalancer(t.Context(), spec, cloudapi.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	run(t, c, "generate")
	out := run(t, c, "run", ".")
	if lines := strings.Count(out, " active\n"); lines != count || !strings.Contains(out, "web-100 [203.0.113.") {
		t.Errorf("lists %d of %d load balancers:\n%s", lines, count, out)
	}
}

// run runs the go command in the folder of the example.
func run(t *testing.T, c *cloud.Cloud, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join("..", "..", "..", "examples", "client")
	// Without cgo also under the race detector, so that it is not compiled twice.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "MYCLOUD_ENDPOINT="+c.Endpoint, "MYCLOUD_TOKEN="+cloud.Token)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
