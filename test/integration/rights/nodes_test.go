package rights_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// nodes registers Nodes, some of them again; one has an invalid annotation, one stops, and one is deleted with its
// instance.
func (w *world) nodes() {
	for i := 1; i <= 3; i++ {
		n := env.NewNode(i)
		w.create(n)
		w.untainted(n, cloudproviderapi.TaintExternalCloudProvider)
	}
	first := node("node-1")
	w.patch(first, func() { first.Spec.Taints = append(first.Spec.Taints, env.NewNode(1).Spec.Taints...) })
	w.untainted(first, cloudproviderapi.TaintExternalCloudProvider)
	w.repeated("Synced")
	w.patch(first, func() {
		metav1.SetMetaDataAnnotation(&first.ObjectMeta, "node.beta.kubernetes.io/dlb-ingress-node", "yes please")
	})
	w.happened("InvalidIngressNodeAnnotation", 1)

	ctx := w.t.Context()
	_, err := w.cloud.Client.StopInstance(ctx, "i-node-2", cloudapi.WriteOptions{})
	w.must(err)
	w.eventually("the taint of a stopped Node", func(ctx context.Context) error {
		n, err := w.tainted(ctx, "node-2", cloudproviderapi.TaintNodeShutdown)
		if err == nil && !n {
			err = errors.New("no taint")
		}
		return err
	})
	_, err = w.cloud.Client.DeleteInstance(ctx, "i-node-3", cloudapi.WriteOptions{})
	w.must(err)
	w.gone(node("node-3"))
}

func (w *world) tainted(ctx context.Context, name, key string) (bool, error) {
	n := node(name)
	err := w.Client.Get(ctx, client.ObjectKeyFromObject(n), n)
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key }), err
}

func (w *world) untainted(n *corev1.Node, key string) {
	w.t.Helper()
	w.eventually("the initialisation of "+n.Name, func(ctx context.Context) error {
		tainted, err := w.tainted(ctx, n.Name, key)
		if err == nil && tainted {
			err = errors.New("it is tainted")
		}
		return err
	})
}

// routes creates a Node whose routes cannot be created until the controller has reported that more than once.
func (w *world) routes() {
	w.cloud.Intercept(func(answer http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/routes:batch") {
			return false
		}
		cloud.Problem(answer, http.StatusForbidden, cloudv1.CodeQuotaExceeded)
		return true
	})
	late := env.NewNode(4)
	w.create(late)
	w.repeated("FailedToCreateRoute")
	w.cloud.Intercept(nil)
	w.eventually("a route to "+late.Name, func(ctx context.Context) error {
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(late), late); err != nil {
			return err
		}
		for _, c := range late.Status.Conditions {
			if c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", late.Status.Conditions)
	})
}
