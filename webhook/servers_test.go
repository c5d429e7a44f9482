package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
	engine "quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	templates "quaymaster.dev/internal/rules/template"
	"quaymaster.dev/internal/rules/volume"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/admission"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/persistentvolume"
	"quaymaster.dev/webhook/persistentvolumeclaim"
	"quaymaster.dev/webhook/policy"
	"quaymaster.dev/webhook/service"
	"quaymaster.dev/webhook/template"
)

const maxQPS = "service.beta.kubernetes.io/dlb-listener-maxqps"

// server is one webhook and the type of its objects.
type server struct {
	name     string
	resource metav1.GroupVersionResource
	kind     schema.GroupVersionKind
	object   func() runtime.Object
	handler  http.Handler
}

// newServers returns every webhook, with policies, classes and a cloud that know a few names and fail for others.
func newServers(t testing.TB) []*server {
	t.Helper()
	metrics := webhook.NewMetrics(prometheus.NewRegistry())
	reviewer := review.Own("mycloud.io/dlb", true)
	known := policies{compiled(t)}
	claims := persistentvolumeclaim.Options{Classes: storage{}, Volumes: storage{}}
	newService := func() runtime.Object { return &corev1.Service{} }
	newClaim := func() runtime.Object { return &corev1.PersistentVolumeClaim{} }
	core, ours := corev1.SchemeGroupVersion, v1alpha1.GroupVersion()
	var servers []*server
	for _, s := range []struct {
		server
		admitter webhook.Admitter
	}{
		{
			server{name: "mutate-service", kind: core.WithKind("Service"), object: newService},
			service.NewMutator(service.Options{Reviewer: reviewer, Policies: known}),
		},
		{
			server{name: "validate-service", kind: core.WithKind("Service"), object: newService},
			service.NewValidator(service.Options{Reviewer: reviewer, Policies: known}),
		},
		{
			server{
				name: "mutate-persistentvolume", kind: core.WithKind("PersistentVolume"),
				object: func() runtime.Object { return &corev1.PersistentVolume{} },
			},
			persistentvolume.NewMutator(persistentvolume.MutatorOptions{Labeler: storage{}}),
		},
		{
			server{
				name: "mutate-persistentvolumeclaim",
				kind: core.WithKind("PersistentVolumeClaim"), object: newClaim,
			},
			persistentvolumeclaim.NewMutator(claims),
		},
		{
			server{
				name: "validate-persistentvolumeclaim",
				kind: core.WithKind("PersistentVolumeClaim"), object: newClaim,
			},
			persistentvolumeclaim.NewValidator(claims),
		},
		{
			server{
				name:   "validate-loadbalancerpolicy",
				kind:   ours.WithKind("LoadBalancerPolicy"),
				object: func() runtime.Object { return &v1alpha1.LoadBalancerPolicy{} },
			},
			policy.NewValidator(policy.Options{Policies: known}),
		},
		{
			server{
				name:   "validate-clusterloadbalancerpolicy",
				kind:   ours.WithKind("ClusterLoadBalancerPolicy"),
				object: func() runtime.Object { return &v1alpha1.ClusterLoadBalancerPolicy{} },
			},
			policy.NewClusterValidator(policy.Options{Policies: known}),
		},
		{
			// It decides on objects of any kind, and the fuzzer sends it one of them.
			server{
				name: "validate-template", kind: gateways.GroupVersion().WithKind("Gateway"), resource: metav1.GroupVersionResource(gateways),
				object: func() runtime.Object { return &unstructured.Unstructured{} },
			},
			template.NewValidator(template.Options{Reviewer: reviewer, Policies: known, Templates: templates.BuiltIn()}),
		},
	} {
		s.handler = webhook.NewHandler(webhook.HandlerOptions{
			Name: s.name, Admitter: s.admitter, Limit: webhook.NewLimit(1), Metrics: metrics, Clock: clock.RealClock{},
			Timeout: time.Minute,
		})
		if s.resource.Resource == "" {
			s.resource = metav1.GroupVersionResource(s.admitter.Resource)
		}
		servers = append(servers, &s.server)
	}
	return servers
}

// reviews returns well-formed AdmissionReviews of every resource; some of the objects must be denied.
func reviews(t testing.TB) [][]byte {
	t.Helper()
	claim := func(size string, options ...builder.PersistentVolumeClaimOption) runtime.Object {
		return builder.PersistentVolumeClaim(append(options, builder.Request(size))...)
	}
	var all [][]byte
	for _, seed := range []struct {
		resource    string
		old, object runtime.Object
	}{
		{"services", nil, builder.Service()},
		{
			"services", nil,
			builder.Service(builder.DLB("listener-maxqps.web", "30000"), builder.DLB("scheduler", "fastest")),
		},
		{"services", builder.Service(), builder.Service(builder.DLB("network-type", "private"))},
		{"persistentvolumes", nil, builder.PersistentVolume()},
		{"persistentvolumes", nil, affine()},
		{"persistentvolumeclaims", nil, claim("2Ti")},
		{"persistentvolumeclaims", claim("10Gi"), claim("25Gi")},
		{"persistentvolumeclaims", claim("10Gi"), claim("2Ti")},
		{"loadbalancerpolicies", nil, namespacePolicy()},
		{"clusterloadbalancerpolicies", clusterPolicy("1000"), clusterPolicy("9000")},
		{gateways.Resource, nil, gateway("dlb-listener-maxqps", "5000")},
		{gateways.Resource, gateway("dlb-scheduler", "wrr"), gateway("dlb-sheduler", "wrr")},
	} {
		gv := seed.object.GetObjectKind().GroupVersionKind().GroupVersion()
		req := &admissionv1.AdmissionRequest{
			UID: "0df28fbd-5f5f-11e8-bc74-36e6bb280816", Resource: metav1.GroupVersionResource(gv.WithResource(seed.resource)), Operation: admissionv1.Create,
			Name: "web", Namespace: "shop", Object: runtime.RawExtension{Raw: marshal(t, seed.object)},
		}
		if seed.old != nil {
			req.Operation, req.OldObject.Raw = admissionv1.Update, marshal(t, seed.old)
		}
		all = append(all, admission.Encode(t, req))
	}
	return all
}

var gateways = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}

// gateway returns a Gateway whose Service has an annotation.
func gateway(key, value string) runtime.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gateways.GroupVersion().String(), "kind": "Gateway", "metadata": map[string]any{"namespace": "shop", "name": "web"},
		"spec": map[string]any{"infrastructure": map[string]any{"annotations": map[string]any{"service.beta.kubernetes.io/" + key: value}}},
	}}
}

// affine returns a PersistentVolume whose node affinity has two terms, one of them without expressions.
func affine() *corev1.PersistentVolume {
	pv := builder.PersistentVolume()
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: corev1.NodeSelectorOpExists}}}, {},
	}}}
	return pv
}

func marshal(t testing.TB, object runtime.Object) []byte {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func namespacePolicy() *v1alpha1.LoadBalancerPolicy {
	return &v1alpha1.LoadBalancerPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindLoadBalancerPolicy},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "limits"},
		Spec: v1alpha1.LoadBalancerPolicySpec{
			Defaults: map[string]string{maxQPS: "5000"},
			Rules: []v1alpha1.Rule{
				{Annotation: maxQPS, Min: new(intstr.FromInt32(10)), Max: new(intstr.FromInt32(20000)), Message: "ask in #edge"},
				{Annotation: "service.beta.kubernetes.io/dlb-tags", Pattern: "^team=", Required: true},
				{Annotation: "service.beta.kubernetes.io/dlb-network-type", Allowed: []string{"private"}},
			},
			Enforcement: v1alpha1.EnforcementDeny,
		},
	}
}

func clusterPolicy(qps string) *v1alpha1.ClusterLoadBalancerPolicy {
	return &v1alpha1.ClusterLoadBalancerPolicy{
		TypeMeta: metav1.TypeMeta{
			APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindClusterLoadBalancerPolicy,
		},
		ObjectMeta: metav1.ObjectMeta{Name: "shared"},
		Spec: v1alpha1.ClusterLoadBalancerPolicySpec{
			NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}},
			LoadBalancerPolicySpec: v1alpha1.LoadBalancerPolicySpec{
				Defaults: map[string]string{maxQPS: qps, "example.com/team": "edge"},
			},
		},
	}
}

func compiled(t testing.TB) []*engine.Policy {
	t.Helper()
	namespaced, problems := engine.Compile(namespacePolicy())
	cluster, more := engine.Compile(clusterPolicy("1000"))
	if errs := finding.Errors(append(problems, more...)); len(errs) > 0 {
		t.Fatal(errs)
	}
	return []*engine.Policy{namespaced, cluster}
}

// policies are the policies of namespace shop; those of namespace down are unavailable.
type policies struct{ all []*engine.Policy }

func (p policies) Applicable(_ context.Context, namespace string) ([]*engine.Policy, error) {
	switch namespace {
	case "shop":
		return p.all, nil
	case "down":
		return nil, errors.New("not synced")
	}
	return nil, nil
}

func (p policies) Others(except engine.Key) ([]*engine.Policy, map[string]map[string]string, error) {
	if except.Name == "down" {
		return nil, nil, errors.New("not synced")
	}
	var others []*engine.Policy
	for _, one := range p.all {
		if one.Key() != except {
			others = append(others, one)
		}
	}
	return others, map[string]map[string]string{"shop": {"tier": "edge"}, "lab": nil}, nil
}

// storage implements StorageClasses, volume types, volumes and zone labels.
type storage struct{}

func (storage) StorageClass(name string) (*storagev1.StorageClass, error) {
	switch name {
	case "":
		return nil, errors.New("lookup of a class without a name")
	case "down":
		return nil, errors.New("not synced")
	case "none":
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "storageclasses"}, name)
	}
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: volume.Driver, Parameters: map[string]string{"type": name},
		AllowVolumeExpansion: new(len(name)%2 == 0),
	}, nil
}

func (storage) VolumeType(name string) (*volume.Type, error) {
	return &volume.Type{Name: name, MaxSizeGiB: 1024, StepGiB: 10, OnlineExpansion: len(name) > 4}, nil
}

func (storage) Volume(context.Context, string) (*volume.Attachment, error) {
	return &volume.Attachment{VolumeID: "vol-1", Instance: "i-7"}, nil
}

func (storage) GetLabelsForVolume(_ context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	switch pv.Spec.CSI.VolumeHandle {
	case "none":
		return nil, cloudprovider.DiskNotFound
	case "":
		return nil, errors.New("connection refused")
	}
	return map[string]string{corev1.LabelTopologyZone: "eu-1a__eu-1b", corev1.LabelTopologyRegion: "eu-1"}, nil
}
