package app_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/kubeapi"
)

// TestTeardownOfAClone: a cluster that was restored from the backup of another one must not delete what that one uses.
func TestTeardownOfAClone(t *testing.T) {
	const uid = "00000000-0000-0000-0000-00000000c1a5"
	c, server := cloud.Start(t, 0), kubeapi.Start(t)
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}
	if _, err := server.Client(t).CoreV1().Namespaces().Create(t.Context(), system, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	group, err := c.Client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{
		Name: "prod-default", Tags: map[string]string{ownership.ClusterUID: uid},
	}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	original := cloudv1.ClusterHolderSpec{Name: "prod", Fingerprints: []string{"sha256:original"}}
	if err := holder.Claim(t.Context(), c.Client, nil, uid, original); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"teardown", "--kubeconfig=" + server.Kubeconfig(t), "--cloud-config=" + c.Config(t, "prod"), "--ignore-controllers", "--yes",
	}
	code, stdout, stderr := run(t, args...)
	if code != 1 || !strings.Contains(stderr, "held by cluster \"prod\"") || !strings.Contains(stderr, "quayctl takeover") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if _, err := c.Client.NodeGroup(t.Context(), group.ID); err != nil {
		t.Errorf("the node group of the original: %v", err)
	}

	// A cloud that is not the cluster's is left alone, whichever cluster holds the UID there.
	memory := contact.Memory{Client: server.Client(t), Namespace: "kube-system"}
	if err := memory.Remember(t.Context(), "cloud-own"); err != nil {
		t.Fatal(err)
	}
	c.Calls()
	if code, _, said := run(t, args...); code != 1 || !strings.Contains(said, "objects are in cloud-own") || !strings.Contains(said, "quayctl takeover") ||
		len(c.Calls()) != 1 {
		t.Errorf("a different cloud: exit code %d: %s", code, said)
	}
	meta, err := c.Client.Meta(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := memory.Remember(t.Context(), meta.ID); err != nil {
		t.Fatal(err)
	}

	// Without the other holder, the cluster's objects are deleted, and its record with them.
	held, err := holder.Read(t.Context(), c.Client, uid)
	if err != nil {
		t.Fatal(err)
	}
	fingerprint := stderr[strings.LastIndex(stderr, "sha256:"):]
	own := cloudv1.ClusterHolderSpec{Name: "prod", Fingerprints: []string{fingerprint[:strings.IndexByte(fingerprint, ';')]}}
	if err := holder.Claim(t.Context(), c.Client, held, uid, own); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := run(t, args...); code != 0 {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if held, err := holder.Read(t.Context(), c.Client, uid); err != nil || held != nil {
		t.Errorf("the record is still there: %+v, %v", held, err)
	}
}
