package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// TestTrimCaches: the shared caches hold Nodes without managed fields and images, and nothing else is missing.
func TestTrimCaches(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "node-1", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Status: corev1.NodeStatus{
			Images:     []corev1.ContainerImage{{Names: []string{"registry.example.com/shop:v1"}}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(node), 0)
	if err := trimCaches(factory); err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(t.Context())
	t.Cleanup(factory.Shutdown)
	factory.WaitForCacheSync(t.Context().Done())
	got, err := factory.Core().V1().Nodes().Lister().Get("node-1")
	if err != nil {
		t.Fatal(err)
	}
	want := node.DeepCopy()
	want.ManagedFields, want.Status.Images = nil, nil
	want.ResourceVersion = got.ResourceVersion
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
