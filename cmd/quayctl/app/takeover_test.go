package app_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/cmd/quayctl/app"
	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/kubeapi"
)

const sharedUID = "00000000-0000-0000-0000-00000000c1a5"

// clusterWith runs an API server with the kube-system namespace of that UID.
func clusterWith(t *testing.T, uid string) *kubeapi.Server {
	t.Helper()
	server := kubeapi.Start(t)
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID(uid)}}
	if _, err := server.Client(t).CoreV1().Namespaces().Create(t.Context(), system, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return server
}

// answered runs quayctl and answers its question.
func answered(t *testing.T, answer string, args ...string) (stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd := app.NewCommand("quayctl")
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(answer))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestTakeover(t *testing.T) {
	c, server := cloud.Start(t, 0), clusterWith(t, sharedUID)
	args := []string{"takeover", "--kubeconfig=" + server.Kubeconfig(t), "--cloud-config=" + c.Config(t, "prod")}
	record := func() *cloudv1.ClusterHolder {
		t.Helper()
		held, err := holder.Read(t.Context(), c.Client, sharedUID)
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	other := cloudv1.ClusterHolderSpec{Name: "prod", Fingerprints: []string{"sha256:other"}, ClaimedBy: "cp-1"}
	if err := holder.Claim(t.Context(), c.Client, nil, sharedUID, other); err != nil {
		t.Fatal(err)
	}

	out, err := answered(t, "no\n", args...)
	if err == nil || !strings.Contains(err.Error(), "not confirmed; nothing was changed") || record().Fingerprints[0] != "sha256:other" {
		t.Errorf("without confirmation: %v, %+v", err, record())
	}
	for _, want := range []string{sharedUID, "sha256:other", "cp-1", "will stop writing", "this cluster:  cluster \"prod\""} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if out, err := answered(t, "yes\n", args...); err != nil || !strings.Contains(out, "this cluster may write to the cloud now") {
		t.Errorf("%v\n%s", err, out)
	}
	mine := record()
	if len(mine.Fingerprints) != 1 || !strings.HasPrefix(mine.Fingerprints[0], "sha256:") || mine.Fingerprints[0] == "sha256:other" {
		t.Errorf("the record is %+v", mine)
	}
	if out, err := answered(t, "", args...); err != nil || !strings.Contains(out, "is the holder already") || record().Revision != mine.Revision {
		t.Errorf("%v\n%s", err, out)
	}
	// The API server that the controllers see may have a certificate of a different CA.
	if out, err := answered(t, "", append(args, "--yes", "--fingerprint=sha256:front")...); err != nil || record().Fingerprints[0] != "sha256:front" {
		t.Errorf("%v\n%s", err, out)
	}
	if err := c.Client.DeleteHolder(t.Context(), sharedUID, cloudapi.WriteOptions{IfMatch: record().Revision}); err != nil {
		t.Fatal(err)
	}
	if out, err := answered(t, "", append(args, "--yes")...); err != nil || !strings.Contains(out, "held by:       no cluster") || record() == nil {
		t.Errorf("%v\n%s", err, out)
	}
	// The cloud was replaced by this one.
	memory := contact.Memory{Client: server.Client(t), Namespace: "kube-system"}
	if err := memory.Remember(t.Context(), "cloud-former"); err != nil {
		t.Fatal(err)
	}
	if out, err := answered(t, "no\n", args...); err == nil || !strings.Contains(out, "the cloud of this cluster was cloud-former") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := answered(t, "yes\n", args...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if id, err := memory.CloudID(t.Context()); err != nil || id == "cloud-former" || id == "" {
		t.Errorf("the cluster's cloud is %q, error %v", id, err)
	}
	if code, _, stderr := run(t, "takeover"); code != 2 || !strings.Contains(stderr, "--cloud-config is required") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestTakeoverWithoutRecords: a cloud that records no holders can take the place of another one.
func TestTakeoverWithoutRecords(t *testing.T) {
	c, server := cloud.Start(t, 0), clusterWith(t, sharedUID)
	c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/holder") {
			cloud.Problem(w, http.StatusNotFound, cloudv1.CodeUnsupported)
			return true
		}
		return false
	})
	args := []string{"takeover", "--kubeconfig=" + server.Kubeconfig(t), "--cloud-config=" + c.Config(t, "prod")}
	if out, err := answered(t, "", args...); err != nil || !strings.Contains(out, "does not record holders") || !strings.Contains(out, "nothing to take over") {
		t.Errorf("%v\n%s", err, out)
	}
	memory := contact.Memory{Client: server.Client(t), Namespace: "kube-system"}
	if err := memory.Remember(t.Context(), "cloud-former"); err != nil {
		t.Fatal(err)
	}
	out, err := answered(t, "yes\n", args...)
	if err != nil || !strings.Contains(out, "was cloud-former") || strings.Contains(out, "any other cluster") {
		t.Errorf("%v\n%s", err, out)
	}
	if id, err := memory.CloudID(t.Context()); err != nil || id == "cloud-former" || id == "" {
		t.Errorf("the cluster's cloud is %q, error %v", id, err)
	}
}

// TestOtherCloud: commands touch nothing in a cloud that is not the cluster's, and name the remedy.
func TestOtherCloud(t *testing.T) {
	c, server := cloud.Start(t, 0), clusterWith(t, sharedUID)
	lb := balancerOf(t, c, "prod-shop-web", "uid-1", false)
	formerBalancer(t, c, "shop-web")
	if err := (contact.Memory{Client: server.Client(t), Namespace: "system"}).Remember(t.Context(), "cloud-own"); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--kubeconfig=" + server.Kubeconfig(t), "--cloud-config=" + c.Config(t, "prod"), "--namespace=system"}
	for name, args := range map[string][]string{
		"plan": {"plan"}, "migrate": {"migrate", "--from=former", "--yes"}, "orphans": {"orphans", "--delete", "--yes", lb.ID},
	} {
		c.Calls()
		_, stdout, stderr := run(t, append(args, flags...)...)
		if said := stdout + stderr; !strings.Contains(said, "objects are in cloud-own; nothing is read from it or written to it") ||
			!strings.Contains(said, "run: quayctl takeover") {
			t.Errorf("%s: %s", name, said)
		}
		if diff := cmp.Diff([]string{"GET /v1/meta"}, c.Calls()); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", name, diff)
		}
	}
}
