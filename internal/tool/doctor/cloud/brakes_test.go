package cloud

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/internal/tool/doctor"
)

func TestBrakes(t *testing.T) {
	stored := func(entry string) []runtime.Object {
		return []runtime.Object{&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: brakes.ConfigMap},
			Data:       map[string]string{brakes.NodeDeletions: entry},
		}}
	}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		level   doctor.Level
		details []string
	}{
		"never engaged": {nil, doctor.OK, nil},
		"released":      {stored(`{"spent":[{"key":"a","at":"2026-03-01T11:59:00Z"}]}`), doctor.OK, nil},
		"engaged": {
			stored(`{"engaged":{"since":"2026-03-01T11:00:00Z","message":"20 Nodes would go"}}`), doctor.Warn,
			[]string{"node-deletions for 1h0m0s: 20 Nodes would go"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := checks(fake.NewClientset(tc.objects...))
			c.Config = &config.Config{}
			got := c.Brakes(t.Context())
			if diff := cmp.Diff(tc.details, got.Details); diff != "" || got.Level != tc.level {
				t.Errorf("got %+v (-want +got):\n%s", got, diff)
			}
		})
	}
}
