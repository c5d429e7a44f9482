package env

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewNode returns the Node node-<i> as its kubelet creates it: with a range of pods, and not initialized.
func NewNode(i int) *corev1.Node {
	name, cidr := fmt.Sprintf("node-%d", i), fmt.Sprintf("10.244.%d.0/24", i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr}, Taints: []corev1.Taint{
			{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
	}
}

// Register creates a Node and reports it as ready, as its kubelet does.
func (e *Env) Register(t *testing.T, node *corev1.Node) {
	t.Helper()
	if err := e.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	e.SetReady(t, node.Name, corev1.ConditionTrue)
}

// SetReady reports on a kubelet: it is ready, or silent.
func (e *Env) SetReady(t *testing.T, name string, status corev1.ConditionStatus) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test"}]}}`, status)
	// A patch: the controllers write to new Nodes too.
	if err := e.Client.Status().Patch(t.Context(), node, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

// AwaitAddress waits until a Service has an address and returns the Service.
func (e *Env) AwaitAddress(t *testing.T, limit time.Duration, svc *corev1.Service) *corev1.Service {
	t.Helper()
	var now *corev1.Service
	Eventually(t, limit, "address of "+svc.Name, func(ctx context.Context) error {
		now = &corev1.Service{}
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(svc), now)
		if err == nil && len(now.Status.LoadBalancer.Ingress) == 0 {
			err = errors.New("no address")
		}
		return err
	})
	return now
}

// AwaitEvent waits for an Event that matches.
func (e *Env) AwaitEvent(t *testing.T, limit time.Duration, what string, matches func(corev1.Event) bool) {
	t.Helper()
	Eventually(t, limit, what, func(ctx context.Context) error {
		var events corev1.EventList
		if err := e.Client.List(ctx, &events); err != nil {
			return err
		}
		if slices.ContainsFunc(events.Items, matches) {
			return nil
		}
		var seen []string
		for _, event := range events.Items {
			seen = append(seen, event.InvolvedObject.Name+": "+event.Reason+": "+event.Message)
		}
		return fmt.Errorf("events %q", seen)
	})
}

// ClusterUID returns the UID of the cluster, which is that of the namespace kube-system.
func (e *Env) ClusterUID(t *testing.T) string {
	t.Helper()
	system := &corev1.Namespace{}
	if err := e.Client.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		t.Fatal(err)
	}
	return string(system.UID)
}

// CreateExample creates the objects of a file in examples.
func (e *Env) CreateExample(ctx context.Context, name string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	out, err := Kubectl(ctx, e.AdminKubeconfig, "", "create", "-f", filepath.Join(root, "examples", name))
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("create %s: %s", name, out.Stderr)
	}
	return err
}
