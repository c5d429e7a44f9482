package webhook_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	kjson "sigs.k8s.io/json"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/persistentvolume"
	"quaymaster.dev/webhook/persistentvolumeclaim"
	"quaymaster.dev/webhook/policy"
	"quaymaster.dev/webhook/service"
)

// admissionReview has the fields of an AdmissionReview that are read.
type admissionReview struct {
	metav1.TypeMeta `json:",inline"`
	Request         *struct {
		UID         types.UID                   `json:"uid"`
		Resource    metav1.GroupVersionResource `json:"resource"`
		SubResource string                      `json:"subResource"`
		Name        string                      `json:"name"`
		Namespace   string                      `json:"namespace"`
		Operation   admissionv1.Operation       `json:"operation"`
		UserInfo    struct {
			Username string `json:"username"`
		} `json:"userInfo"`
		DryRun    *bool                `json:"dryRun"`
		Object    runtime.RawExtension `json:"object"`
		OldObject runtime.RawExtension `json:"oldObject"`
	} `json:"request"`
}

// valid reports whether the API server could have sent the review for a resource.
func (r *admissionReview) valid(of metav1.GroupVersionResource) bool {
	if r.APIVersion != "admission.k8s.io/v1" || r.Kind != "AdmissionReview" || r.Request == nil || r.Request.UID == "" ||
		r.Request.Resource != of || r.Request.SubResource != "" {
		return false
	}
	return slices.Contains([]admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete}, r.Request.Operation)
}

// names has the fields of metadata that are always read.
type names struct {
	Name              string       `json:"name"`
	GenerateName      string       `json:"generateName"`
	Namespace         string       `json:"namespace"`
	DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
}

func (n *names) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: n.Name, GenerateName: n.GenerateName, Namespace: n.Namespace, DeletionTimestamp: n.DeletionTimestamp,
	}
}

// metadata has the fields of metadata that are read of some objects.
type metadata struct {
	names
	Annotations map[string]string `json:"annotations"`
}

// meta returns the metadata with those annotations that have the prefix.
func (m *metadata) meta(prefix string) metav1.ObjectMeta {
	meta := m.names.meta()
	meta.Annotations = filter(m.Annotations, prefix)
	return meta
}

// filter returns the entries whose keys have one of the prefixes.
func filter(all map[string]string, prefixes ...string) map[string]string {
	if all == nil {
		return nil
	}
	selected := map[string]string{}
	for key, value := range all {
		for _, prefix := range prefixes {
			if strings.HasPrefix(key, prefix) {
				selected[key] = value
			}
		}
	}
	return selected
}

// readable is an object with the fields that are read.
type readable interface{ object() runtime.Object }

// serviceObject has the fields of a Service that are read.
type serviceObject struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata `json:"metadata"`
	Spec            struct {
		Type  corev1.ServiceType `json:"type"`
		Ports []struct {
			Name        string             `json:"name"`
			Protocol    corev1.Protocol    `json:"protocol"`
			AppProtocol *string            `json:"appProtocol"`
			Port        int32              `json:"port"`
			TargetPort  intstr.IntOrString `json:"targetPort"`
			NodePort    int32              `json:"nodePort"`
		} `json:"ports"`
		Selector                      map[string]string                    `json:"selector"`
		ClusterIPs                    []string                             `json:"clusterIPs"`
		ExternalIPs                   []string                             `json:"externalIPs"`
		LoadBalancerIP                string                               `json:"loadBalancerIP"`
		LoadBalancerSourceRanges      []string                             `json:"loadBalancerSourceRanges"`
		LoadBalancerClass             *string                              `json:"loadBalancerClass"`
		AllocateLoadBalancerNodePorts *bool                                `json:"allocateLoadBalancerNodePorts"`
		IPFamilies                    []corev1.IPFamily                    `json:"ipFamilies"`
		IPFamilyPolicy                *corev1.IPFamilyPolicy               `json:"ipFamilyPolicy"`
		ExternalTrafficPolicy         corev1.ServiceExternalTrafficPolicy  `json:"externalTrafficPolicy"`
		InternalTrafficPolicy         *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy"`
		SessionAffinity               corev1.ServiceAffinity               `json:"sessionAffinity"`
		SessionAffinityConfig         *struct {
			ClientIP *struct {
				TimeoutSeconds *int32 `json:"timeoutSeconds"`
			} `json:"clientIP"`
		} `json:"sessionAffinityConfig"`
	} `json:"spec"`
	Status struct {
		LoadBalancer struct {
			Ingress []struct{} `json:"ingress"`
		} `json:"loadBalancer"`
	} `json:"status"`
}

// object returns the Service.
func (s *serviceObject) object() runtime.Object {
	svc := &corev1.Service{TypeMeta: s.TypeMeta, ObjectMeta: s.Metadata.meta(""), Spec: corev1.ServiceSpec{
		Type: s.Spec.Type, Selector: s.Spec.Selector, ClusterIPs: s.Spec.ClusterIPs, ExternalIPs: s.Spec.ExternalIPs,
		LoadBalancerIP: s.Spec.LoadBalancerIP, LoadBalancerSourceRanges: s.Spec.LoadBalancerSourceRanges,
		LoadBalancerClass: s.Spec.LoadBalancerClass, AllocateLoadBalancerNodePorts: s.Spec.AllocateLoadBalancerNodePorts,
		IPFamilies: s.Spec.IPFamilies, IPFamilyPolicy: s.Spec.IPFamilyPolicy,
		ExternalTrafficPolicy: s.Spec.ExternalTrafficPolicy, InternalTrafficPolicy: s.Spec.InternalTrafficPolicy,
		SessionAffinity: s.Spec.SessionAffinity,
	}}
	if ports := s.Spec.Ports; ports != nil {
		svc.Spec.Ports = make([]corev1.ServicePort, len(ports))
		for i, p := range ports {
			svc.Spec.Ports[i] = corev1.ServicePort(p)
		}
	}
	if config := s.Spec.SessionAffinityConfig; config != nil {
		svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{}
		if config.ClientIP != nil {
			svc.Spec.SessionAffinityConfig.ClientIP = &corev1.ClientIPConfig{TimeoutSeconds: config.ClientIP.TimeoutSeconds}
		}
	}
	if ingress := s.Status.LoadBalancer.Ingress; ingress != nil {
		svc.Status.LoadBalancer.Ingress = make([]corev1.LoadBalancerIngress, len(ingress))
	}
	return svc
}

// volumeObject has the fields of a PersistentVolume that are read.
type volumeObject struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		metadata
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		CSI *struct {
			Driver       string `json:"driver"`
			VolumeHandle string `json:"volumeHandle"`
		} `json:"csi"`
		NodeAffinity *corev1.VolumeNodeAffinity `json:"nodeAffinity"`
	} `json:"spec"`
}

func (v *volumeObject) object() runtime.Object {
	pv := &corev1.PersistentVolume{TypeMeta: v.TypeMeta, ObjectMeta: v.Metadata.meta("pv.kubernetes.io/")}
	pv.Labels = filter(v.Metadata.Labels, "topology.kubernetes.io/", "failure-domain.beta.kubernetes.io/")
	pv.Spec.NodeAffinity = v.Spec.NodeAffinity
	if csi := v.Spec.CSI; csi != nil {
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver, VolumeHandle: csi.VolumeHandle}
	}
	return pv
}

// storageOnly is a list of resources with the only one that is read.
type storageOnly struct {
	Storage listed `json:"storage"`
}

// listed is a quantity that may be missing.
type listed struct {
	resource.Quantity

	is bool
}

func (l *listed) UnmarshalJSON(raw []byte) error {
	l.is = true
	return l.Quantity.UnmarshalJSON(raw)
}

func (s *storageOnly) list() corev1.ResourceList {
	if s == nil || !s.Storage.is {
		return nil
	}
	return corev1.ResourceList{corev1.ResourceStorage: s.Storage.Quantity}
}

// claimObject has the fields of a PersistentVolumeClaim that are read.
type claimObject struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata `json:"metadata"`
	Spec            struct {
		Resources struct {
			Requests *storageOnly `json:"requests"`
		} `json:"resources"`
		StorageClassName *string `json:"storageClassName"`
		VolumeName       string  `json:"volumeName"`
	} `json:"spec"`
	Status struct {
		Phase    corev1.PersistentVolumeClaimPhase `json:"phase"`
		Capacity *storageOnly                      `json:"capacity"`
	} `json:"status"`
}

func (c *claimObject) object() runtime.Object {
	pvc := &corev1.PersistentVolumeClaim{TypeMeta: c.TypeMeta, ObjectMeta: c.Metadata.meta(corev1.BetaStorageClassAnnotation)}
	if pvc.Annotations != nil { // only one key is read, and not others that begin like it
		value, set := pvc.Annotations[corev1.BetaStorageClassAnnotation]
		if pvc.Annotations = map[string]string{}; set {
			pvc.Annotations[corev1.BetaStorageClassAnnotation] = value
		}
	}
	pvc.Spec.Resources.Requests, pvc.Status.Capacity = c.Spec.Resources.Requests.list(), c.Status.Capacity.list()
	pvc.Spec.StorageClassName, pvc.Spec.VolumeName, pvc.Status.Phase = c.Spec.StorageClassName, c.Spec.VolumeName, c.Status.Phase
	return pvc
}

// policyObject has the fields of a policy that are read.
type policyObject struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        names                           `json:"metadata"`
	Spec            v1alpha1.LoadBalancerPolicySpec `json:"spec"`
}

func (p *policyObject) object() runtime.Object {
	return &v1alpha1.LoadBalancerPolicy{TypeMeta: p.TypeMeta, ObjectMeta: p.Metadata.meta(), Spec: p.Spec}
}

// clusterPolicyObject has the fields of a cluster policy that are read.
type clusterPolicyObject struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        names                                  `json:"metadata"`
	Spec            v1alpha1.ClusterLoadBalancerPolicySpec `json:"spec"`
}

func (p *clusterPolicyObject) object() runtime.Object {
	return &v1alpha1.ClusterLoadBalancerPolicy{TypeMeta: p.TypeMeta, ObjectMeta: p.Metadata.meta(), Spec: p.Spec}
}

// reading is what one webhook reads.
type reading struct {
	admitter webhook.Admitter
	want     func() readable
}

func readings() []reading {
	return []reading{
		{service.NewValidator(service.Options{}), func() readable { return &serviceObject{} }},
		{persistentvolume.NewMutator(persistentvolume.MutatorOptions{}), func() readable { return &volumeObject{} }},
		{persistentvolumeclaim.NewMutator(persistentvolumeclaim.Options{}), func() readable { return &claimObject{} }},
		{policy.NewValidator(policy.Options{}), func() readable { return &policyObject{} }},
		{policy.NewClusterValidator(policy.Options{}), func() readable { return &clusterPolicyObject{} }},
	}
}

// costly matches quantities that the API server needs very long to parse.
var costly = regexp.MustCompile(`[eE][-+]?[0-9]{3}|[0-9.]{60}`)

// FuzzReview compares how whole AdmissionReviews are read, at once and byte by byte, with the decoder of the API server.
func FuzzReview(f *testing.F) {
	all := readings()
	for _, text := range []string{
		`{"metadata":{"name":"a","name":"b","annotations":{"x":"1"},"annotations":{"y":"2"}}}`,
		`{"metadata":{"annotations":{"x":"1","x":"2","x":null}},"metadata":{"annotations":null,"name":null}}`,
		`{"spec":{"ports":[{"port":1,"name":"a"},{"port":2}],"ports":[{"name":"b"}],"ports":[{"name":"c"},{"nodePort":1}]}}`,
		`{"spec":{"ports":[{"port":1}],"ports":null}}`, `{"spec":{"ports":[{"port":1}],"ports":[],"ports":[{}]}}`,
		`{"spec":{"ports":[{"port":1},{"port":2}],"ports":[{}],"ports":[{},{},{},{}]}}`,
		`{"Metadata":{"name":"a"},"metadata":{"NAME":"a","\u006eame":"b"}}`,
		"{\"metadata\":{\"name\":\"\xff\xfe\",\"annotations\":{\"\xc3\x28\":\"\xed\xa0\x80\",\"\xff\":\"1\",\"\xfe\":\"2\"}}}",
		`{"metadata":{"name":"\ud800","namespace":"\ud83d\ude00","generateName":"\u0000\n"}}`,
		`{"spec":{"ports":[{"port":1.0}]}}`, `{"spec":{"ports":[{"port":1e2}]}}`, `{"spec":{"ports":[{"port":-0}]}}`,
		`{"spec":{"ports":[{"port":99999999999}]}}`, `{"spec":{"ports":[{"port":"80"}]}}`, `{"spec":{"ports":{}}}`,
		`{"spec":{"ports":[{"port":80,"targetPort":"http"},{"targetPort":8080},{"targetPort":1.5},null]}}`,
		`{"spec":{"ports":[{"targetPort":"http","targetPort":null},{"targetPort":8080,"targetPort":"a"}]}}`,
		`{"spec":{"ports":[{"targetPort":{}}]}}`, `{"spec":{"ports":[{"targetPort":true}]}}`,
		`{"spec":{"ports":7},"metadata":{"name":"after an error"}}`, `{"spec":null,"status":[]}`,
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`, `{"metadata":{"deletionTimestamp":"x"}}`,
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":null}}`,
		`{"metadata":{"labels":{"a":1}}}`, `{"metadata":{"annotations":[]}}`, `{"metadata":{"annotations":{"a":1}}}`,
		`{"spec":{"sessionAffinityConfig":{"clientIP":{"timeoutSeconds":9}},"sessionAffinityConfig":{"clientIP":{}}}}`,
		`{"spec":{"sessionAffinityConfig":{"clientIP":{"timeoutSeconds":9,"timeoutSeconds":null}}}}`,
		`{"spec":{"loadBalancerClass":"a","loadBalancerClass":null,"allocateLoadBalancerNodePorts":0}}`,
		`{"spec":{"allocateLoadBalancerNodePorts":false,"ipFamilies":["IPv4",null],"selector":{"a":"b"},"clusterIPs":[1]}}`,
		`{"status":{"loadBalancer":{"ingress":[{"ip":"10.0.0.1"},null,{}]}}}`, `{"status":{"loadBalancer":{"ingress":[1]}}}`,
		`{} {}`, `{}x`, "{}\n\t ", `{"a":1,}`, `{a:1}`, `[]`, `null`, `""`, ` `, ``, `{"kind":"A` + "\n" + `"}`, `{"a"`, `{"a":`,
		`{"metadata":{"name":"a"`, `{"spec":{"ports":[`, `{"spec":{"ports":[{}`, `{"spec":{"ports":[{}],`, `{"spec":{"ports":[{}]]`,
		`{"spec":{"resources":{"requests":{"storage":"10Gi","cpu":[]}}},"status":{"phase":"Bound","capacity":{"storage":1e3}}}`,
		`{"spec":{"resources":{"requests":{"storage":"1e-30"},"requests":null},"storageClassName":null,"volumeName":"pv"}}`,
		"{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"\u00a01Gi \",\"storage\":null}}}}",
		`{"metadata":{"labels":{"topology.kubernetes.io/zone":"a","b":"c"}},"spec":{"csi":{"driver":"d","volumeHandle":"h"},` +
			`"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}]}}}}`,
		`{"spec":{"nodeAffinity":null,"csi":null},"spec":{"nodeAffinity":{"required":[]}}}`,
		`{"spec":{"defaults":{"a":"b"},"rules":[{"annotation":"a","min":1,"max":"2s","allowed":["b"],"pattern":"^c$"}],` +
			`"enforcement":"Warn","priority":3,"catalogs":["aws"],"namespaceSelector":{"matchLabels":{"a":"b"}}}}`,
		manifest,
	} {
		for i, one := range all {
			for _, operation := range []string{"CREATE", "UPDATE"} {
				f.Add(byte(i), fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",`+
					`"resource":{"group":%q,"version":%q,"resource":%q},"operation":%q,"object": %s ,"oldObject": %s ,"name":"after"}}`,
					one.admitter.Resource.Group, one.admitter.Resource.Version, one.admitter.Resource.Resource, operation, text, text))
			}
		}
	}
	for _, text := range []string{
		`{"request":{"uid":"u","operation":"CREATE","object":{"a":1,"a":2},"oldObject":null,"dryRun":null}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"DELETE","oldObject":[`,
		`{"unknown":` + strings.Repeat("[", 9998) + strings.Repeat("]", 9998) + `}`,
		`{"unknown":` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + `}`,
		`{"request":{"object":` + strings.Repeat("[", 9997) + strings.Repeat("]", 9997) + `}}`,
		`{"request":{"object":{},"object":null,"object":1},"request":{"uid":"\ud800"}}`, `{} {}`, `{}x`, "{}\n\t ", ``, `null`,
	} {
		f.Add(byte(0), []byte(text))
	}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for i := range all {
			f.Add(byte(i), raw)
		}
	}
	metrics := webhook.NewMetrics(prometheus.NewRegistry())
	f.Fuzz(func(t *testing.T, which byte, body []byte) {
		if costly.Match(body) {
			t.Skip()
		}
		one := all[int(which)%len(all)]
		want := &admissionReview{}
		err := kjson.UnmarshalCaseSensitivePreserveInts(body, want)
		for _, length := range []int64{int64(len(body)), -1} {
			handler := webhook.NewHandler(webhook.HandlerOptions{
				Admitter: one.admitter, Limit: webhook.NewLimit(1), Metrics: metrics, Clock: clock.RealClock{},
			})
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			if r.ContentLength = length; length < 0 {
				r.Body = pieces{r.Body}
			}
			got, status := handler.Read(httptest.NewRecorder(), r)
			switch valid := err == nil && want.valid(metav1.GroupVersionResource(one.admitter.Resource)); {
			case !valid && status != http.StatusBadRequest || valid && status != http.StatusOK:
				t.Fatalf("status %d; API server: %v\n%.300q", status, err, body)
			case valid:
				compare(t, one, want, got, body)
			}
		}
	})
}

// compare compares a review with the request that was read.
func compare(t *testing.T, by reading, want *admissionReview, got *admissionv1.AdmissionRequest, body []byte) {
	t.Helper()
	r := want.Request
	fields := &admissionv1.AdmissionRequest{
		UID: r.UID, Resource: r.Resource, SubResource: r.SubResource, Name: r.Name, Namespace: r.Namespace,
		Operation: r.Operation, DryRun: r.DryRun, Object: got.Object, OldObject: got.OldObject,
	}
	fields.UserInfo.Username = r.UserInfo.Username
	if diff := cmp.Diff(fields, got, cmp.Comparer(func(a, b runtime.RawExtension) bool { return true })); diff != "" {
		t.Fatalf("request (-API server +got):\n%s\n%.300q", diff, body)
	}
	if r.Operation == admissionv1.Delete {
		return // its objects do not matter
	}
	for _, pair := range []struct{ raw, got runtime.RawExtension }{{r.Object, got.Object}, {r.OldObject, got.OldObject}} {
		object := by.want()
		switch {
		case pair.raw.Raw == nil:
			if pair.got.Object != nil {
				t.Fatalf("got an object where there is none\n%.300q", body)
			}
		case kjson.UnmarshalCaseSensitivePreserveInts(pair.raw.Raw, object) != nil:
			if _, read := pair.got.Object.(webhook.Object); read {
				t.Fatalf("an object of the wrong type was read\n%.300q", body)
			}
		default:
			if diff := cmp.Diff(object.object(), pair.got.Object); diff != "" {
				t.Fatalf("object (-API server +got):\n%s\n%.300q", diff, body)
			}
		}
	}
}

// pieces is a body that arrives in small pieces.
type pieces struct{ io.ReadCloser }

func (p pieces) Read(b []byte) (int, error) { return p.ReadCloser.Read(b[:min(len(b), 7)]) }

// manifest is a Service with every field that is read.
const manifest = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","generateName":"web-","namespace":"shop",` +
	`"deletionTimestamp":"2026-01-01T00:00:00Z","annotations":{"a":"b"},"managedFields":[{"manager":"kubectl"}]},` +
	`"spec":{"type":"LoadBalancer","ports":[{"name":"http","protocol":"TCP","appProtocol":"http","port":80,` +
	`"targetPort":8080,"nodePort":30080}],"selector":{"app":"web"},"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],` +
	`"externalIPs":["192.0.2.1"],"loadBalancerIP":"192.0.2.2","loadBalancerSourceRanges":["10.0.0.0/8"],` +
	`"loadBalancerClass":"mycloud.io/dlb","allocateLoadBalancerNodePorts":true,"ipFamilies":["IPv4"],` +
	`"ipFamilyPolicy":"SingleStack","externalTrafficPolicy":"Local","internalTrafficPolicy":"Cluster",` +
	`"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":10800}}},` +
	`"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.2"}]}}}`
