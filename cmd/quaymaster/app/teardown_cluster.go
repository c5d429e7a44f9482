package app

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quaymaster.dev/internal/leadership"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/review"
	"quaymaster.dev/provider/ownership"
)

// keyRetain is how a Service says that its load balancer outlives it.
const keyRetain = loadbalancer.Prefix + "retain-on-delete"

// namedServices is how many Services an error names.
const namedServices = 3

// askCluster gives the cluster's UID and the Services whose load balancers are to be retained, and refuses while the cluster is
// still served: what it needs would be made anew, or missed.
func (o *teardownOptions) askCluster(ctx context.Context, api kubernetes.Interface, class string) (uid string, retained map[string]string, err error) {
	if uid, err = ownership.NewCluster(api.CoreV1()).UID(ctx); err != nil {
		return "", nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	services, err := api.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.type=LoadBalancer"})
	if err != nil {
		return "", nil, fmt.Errorf("list services: %w", err)
	}
	ours, retained := ownServices(services.Items, class)
	if len(ours) > 0 && !o.ignoreServices {
		return "", nil, fmt.Errorf("%d Services still have load balancers of ours: %s; delete them while the controllers run, or say --ignore-services",
			len(ours), summary(ours))
	}
	if o.ignoreControllers {
		return uid, retained, nil
	}
	state, err := leadership.Read(ctx, api, leadership.Namespace, leadership.CloudLease)
	if err != nil {
		return "", nil, err
	}
	if state.Held {
		return "", nil, fmt.Errorf("the controllers still run: %s holds the lease %s/%s, for some seconds after its end; uninstall them first, or say --ignore-controllers",
			state.Holder, leadership.Namespace, leadership.CloudLease)
	}
	return uid, retained, nil
}

// ownServices picks the Services that are ours and, by UID, those that want their load balancers retained. A value that cannot be read
// retains, too: a guess could destroy what was to be kept.
func ownServices(services []corev1.Service, class string) (ours []string, retained map[string]string) {
	retained = map[string]string{}
	for i := range services {
		svc := &services[i]
		if !review.Own(class).Owned(svc) {
			continue
		}
		name := svc.Namespace + "/" + svc.Name
		ours = append(ours, name)
		if value, set := svc.Annotations[keyRetain]; set && value != "false" {
			retained[string(svc.UID)] = name
		}
	}
	return ours, retained
}

func summary(names []string) string {
	if len(names) > namedServices {
		return strings.Join(names[:namedServices], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
