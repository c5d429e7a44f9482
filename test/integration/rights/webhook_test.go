package rights_test

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// shop is the namespace of users.
const shop = "shop"

// startWebhook runs the webhooks and registers their address.
func (w *world) startWebhook() {
	ctx := w.t.Context()
	port, err := env.FreePort()
	w.must(err)
	certificate, authority := w.certificate()
	args := append(portable(w.arguments("webhook")), certificate...)
	if w.usesCloud("webhook") {
		cloudConfig, err := w.CloudConfigArg("webhook", w.cloudConfig())
		w.must(err)
		args = append(args, cloudConfig)
	}
	w.address = env.WebhookURL(port)
	w.register(authority)
	w.webhook, err = w.StartWebhook(ctx, port, args...)
	w.must(errors.Join(err, w.issuing.Wait()))
	w.eventually("the API server to call the webhooks", func(ctx context.Context) error {
		bad := service("probe", builder.DLB("scheduler", "fastest"))
		bad.Namespace = metav1.NamespaceDefault
		if w.Client.Create(ctx, bad, client.DryRunAll) == nil {
			return errors.New("an invalid Service is not refused")
		}
		return nil
	})
}

// register writes the address of the webhooks into the configurations of the chart.
func (w *world) register(authority []byte) {
	values := maps.Clone(w.values)
	webhook := map[string]any{"url": w.address, "caBundle": string(authority)}
	if given, ok := values["webhook"].(map[string]any); ok {
		maps.Copy(webhook, given)
	}
	values["webhook"] = webhook
	w.must(w.InstallChart(w.t.Context(), values))
}

// service returns a valid Service of the shop, changed by options.
func service(name string, options ...builder.ServiceOption) *corev1.Service {
	svc := builder.Service(options...)
	svc.Namespace, svc.Name, svc.UID = shop, name, ""
	svc.Spec.Ports[0].NodePort = 0 // the API server allocates it
	return svc
}

// unknownNamespace sends a review as an API server does that knows a namespace before the webhooks do.
func (w *world) unknownNamespace() {
	svc := service("web")
	svc.Namespace = "unknown"
	kind := corev1.SchemeGroupVersion.WithKind("Service")
	_, err := w.webhook.Ask(w.t.Context(), "/mutate-service", kind, "services", svc.Namespace, nil, svc)
	w.must(err)
}

// ask sends a request to a role without verifying its certificate, with the client's certificate if there is one.
func (w *world) ask(request *http.Request, client *tls.Certificate) (status int) {
	w.t.Helper()
	// The server may have a self-signed certificate.
	trust := &tls.Config{InsecureSkipVerify: true}
	if client != nil {
		trust.Certificates = []tls.Certificate{*client}
	}
	transport := &http.Transport{TLSClientConfig: trust}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	w.must(err)
	w.must(response.Body.Close())
	return response.StatusCode
}

// claims grows claims, one of them of a StorageClass that does not exist.
func (w *world) claims() {
	// Volumes of this type cannot grow in use, so that the webhooks look up their users.
	w.create(builder.StorageClass(builder.VolumeType("archive")))
	for _, class := range []string{"archive", "gone"} {
		pv := builder.PersistentVolume()
		pv.Name, pv.UID, pv.Spec.StorageClassName = class, "", class
		w.create(pv)
		pvc := builder.PersistentVolumeClaim(builder.ClaimClass(class))
		pvc.Namespace, pvc.Name, pvc.UID, pvc.Spec.VolumeName = shop, class, "", class
		status := pvc.Status
		w.create(pvc)
		pvc.Status = status
		w.must(w.Client.Status().Update(w.t.Context(), pvc))
		growth := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"resources":{"requests":{"storage":"30Gi"}}}}`))
		err := w.Client.Patch(w.t.Context(), pvc, growth)
		if refused := class == "gone"; refused != (err != nil) {
			w.t.Errorf("a claim of class %s grows: %v", class, err)
		}
	}
}

// probe checks both roles, as helm test does.
func (w *world) probe() {
	kubeconfig, err := w.ServiceAccountKubeconfig(w.t.Context(), env.Namespace, "quaymaster-test")
	w.must(err)
	path, err := env.Program("quayctl")
	w.must(err)
	out, err := env.Run(w.t.Context(), "", path, append([]string{"probe", "--kubeconfig=" + kubeconfig}, w.arguments("test")...)...)
	w.must(err)
	if out.Code != 0 || !strings.Contains(out.Stdout, "an invalid Service is denied") || !strings.Contains(out.Stdout, "have a leader") {
		w.t.Errorf("probe: %+v", out)
	}
}
