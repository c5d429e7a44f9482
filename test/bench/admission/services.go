package main

import (
	"encoding/json"
	"maps"
	"net/http"

	vegeta "github.com/tsenart/vegeta/v12/lib"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/internal/rules/loadbalancer"
)

// Annotations whose effect shows that a configuration is in force.
const (
	maxQPS    = loadbalancer.Prefix + "listener-maxqps" // has a default
	scheduler = loadbalancer.Prefix + "scheduler"       // has few values
	deniedBy  = "example.com/denied-by"                 // denied by the floor
)

// stored is the Service whose status is written.
const stored = "stored"

// service returns the Service that is created: six annotations of the DLB and two ports, but without maxQPS, which has
// a default.
func service(namespace string, annotations map[string]string) *corev1.Service {
	svc := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "web",
			Labels: map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/managed-by": "benchmark"},
			Annotations: map[string]string{
				loadbalancer.Prefix + "listener-maxconn":       "5000",
				loadbalancer.Prefix + "listener-protocol.http": "http",
				loadbalancer.Prefix + "health-check-protocol":  "http",
				loadbalancer.Prefix + "health-check-path":      "/ready",
				loadbalancer.Prefix + "health-check-interval":  "10s",
				loadbalancer.Prefix + "health-check-timeout":   "3s",
			},
		},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: map[string]string{"app.kubernetes.io/name": "web"},
			Ports: []corev1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)},
				{Name: "admin", Protocol: corev1.ProtocolTCP, Port: 8443, TargetPort: intstr.FromString("admin")},
			},
		},
	}
	maps.Copy(svc.Annotations, annotations)
	return svc
}

// workload is a kind of request, by the name of its benchmark.
type workload string

const (
	loadBalancers workload = "Create"
	clusterIPs    workload = "CreateClusterIP"
	statusWrites  workload = "WriteStatus"
)

// target returns the request of the workload, by server-side dry run: nothing is stored.
func (w workload) target(host, namespace string) (vegeta.Target, error) {
	url := host + "/api/v1/namespaces/" + namespace + "/services"
	header := http.Header{"Content-Type": {runtime.ContentTypeJSON}, "Accept": {runtime.ContentTypeJSON}}
	if w == statusWrites {
		header.Set("Content-Type", string(types.MergePatchType))
		return vegeta.Target{
			Method: http.MethodPatch, URL: url + "/" + stored + "/status?dryRun=All", Header: header,
			Body: []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.1"}]}}}`),
		}, nil
	}
	svc := service(namespace, nil)
	if w == clusterIPs {
		svc.Spec.Type = corev1.ServiceTypeClusterIP
	}
	body, err := json.Marshal(svc)
	return vegeta.Target{Method: http.MethodPost, URL: url + "?dryRun=All", Header: header, Body: body}, err
}
