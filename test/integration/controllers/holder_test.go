package controllers

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

// TestClone: the controllers of a cluster that does not hold its UID write nothing and say so. quayctl takeover sees the
// same fingerprint as the controllers, and makes them write.
func TestClone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	original := cloudv1.ClusterHolderSpec{Name: "dev", Fingerprints: []string{"sha256:original"}}
	w.must(holder.Claim(t.Context(), w.cloud.Client, nil, w.clusterUID, original))
	w.cloud.Calls()
	w.start("--leader-elect=true")
	svc := w.service("web")
	w.event(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}, "sha256:original")
	time.Sleep(soon)
	if wrote := cloud.Writes(w.cloud.Calls()); len(wrote) > 0 {
		t.Errorf("the clone has sent %q", wrote)
	}

	path, err := env.Program("quayctl")
	w.must(err)
	config, err := w.env.CloudConfigArg("takeover.yaml", w.config)
	w.must(err)
	out, err := exec.CommandContext(t.Context(), path, "takeover", "--kubeconfig="+w.env.AdminKubeconfig, config, "--yes").
		CombinedOutput()
	if err != nil || !strings.Contains(string(out), "this cluster may write to the cloud now") {
		t.Fatalf("takeover: %v\n%s", err, out)
	}
	w.env.AwaitAddress(t, 45*time.Second, svc)
	held, err := holder.Read(t.Context(), w.cloud.Client, w.clusterUID)
	if err != nil || held.Epoch != 0 || !strings.HasPrefix(held.Fingerprints[0], "sha256:") {
		t.Errorf("the record is %+v, %v", held, err)
	}
}
