package rights_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/cloud"
)

const maxQPS = "service.beta.kubernetes.io/dlb-listener-maxqps"

// policies creates both kinds of policies and a Service of another provider that breaks one, then complies, and breaks
// it again.
func (w *world) policies() {
	limit := v1alpha1.LoadBalancerPolicySpec{
		Enforcement: v1alpha1.EnforcementAudit,
		Rules:       []v1alpha1.Rule{{Annotation: maxQPS, Max: new(intstr.FromInt32(100))}},
	}
	w.create(&v1alpha1.LoadBalancerPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "limit"}, Spec: limit})
	w.create(&v1alpha1.ClusterLoadBalancerPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "limit"},
		Spec:       v1alpha1.ClusterLoadBalancerPolicySpec{LoadBalancerPolicySpec: limit},
	})
	greedy := service("greedy", builder.DLB("listener-maxqps", "100"))
	w.create(greedy)
	for times, qps := range []string{"200", "100", "200"} {
		w.patch(greedy, func() { greedy.Annotations[maxQPS] = qps })
		if qps == "200" {
			w.happened(v1alpha1.ReasonViolations, int32(times/2+1))
		} else {
			w.happened(v1alpha1.ReasonCompliant, 1)
		}
	}
}

// services creates, changes and deletes Services, and replaces one while its load balancer is being created.
func (w *world) services() {
	web := service("web")
	w.create(web)
	w.AwaitAddress(w.t, soon, web)
	w.patch(web, func() { metav1.SetMetaDataAnnotation(&web.ObjectMeta, maxQPS, "50") })
	w.repeated("EnsuredLoadBalancer")
	w.must(w.Client.Delete(w.t.Context(), web))
	w.gone(web)
	w.replaced()
}

// replaced makes the cloud reject the load balancer of a Service that no longer exists by then, and thus its condition.
func (w *world) replaced() {
	removed := make(chan error, 1)
	w.cloud.Intercept(func(answer http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || r.URL.Path != "/v1/load-balancers" {
			return false
		}
		w.cloud.Intercept(nil)
		removed <- w.remove(r.Context(), service("brief"))
		cloud.Problem(answer, http.StatusUnprocessableEntity, cloudv1.CodeInvalid)
		return true
	})
	w.create(service("brief"))
	select {
	case err := <-removed:
		w.must(err)
	case <-time.After(soon):
		w.t.Fatal("the cloud was not asked for a load balancer")
	}
}

// remove deletes a Service without waiting.
func (w *world) remove(ctx context.Context, svc *corev1.Service) error {
	if err := w.Client.Delete(ctx, svc); err != nil {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		found := &corev1.Service{}
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(svc), found); err != nil {
			return client.IgnoreNotFound(err)
		}
		found.Finalizers = nil
		err := w.Client.Update(ctx, found)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// volumes removes the labels that admission added to volumes; the controllers add them again.
func (w *world) volumes() {
	pv := builder.PersistentVolume()
	pv.Name, pv.UID = "bare", ""
	w.create(pv)
	w.patch(pv, func() { pv.Labels = nil })
	w.eventually("the labels of a volume", func(ctx context.Context) error {
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(pv), pv); err != nil {
			return err
		}
		if pv.Labels[corev1.LabelTopologyZone] == "" {
			return errors.New("there are none")
		}
		return nil
	})
}

// metrics requests the controllers' metrics as a user and anonymously: the API server decides who may read them.
func (w *world) metrics() {
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.controllers.URL+"/metrics", nil)
	w.must(err)
	user, err := tls.X509KeyPair(w.User.CertData, w.User.KeyData)
	w.must(err)
	if status := w.ask(request, &user); status != http.StatusForbidden {
		w.t.Errorf("request of a user: status %d", status)
	}
	request.Header.Set("Authorization", "Bearer unknown")
	if status := w.ask(request, nil); status != http.StatusUnauthorized {
		w.t.Errorf("anonymous request: status %d", status)
	}
}
