package dlb

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/loadbalancer"
)

// status returns what the Service publishes of its load balancer: an address of every family, or the hostname. It fails
// if an address is not assigned or not served yet.
func status(d *loadbalancer.Desired, lb *cloudv1.LoadBalancer) (*corev1.LoadBalancerStatus, error) {
	if lb.ProvisioningState == cloudv1.ProvisioningPendingCreate {
		return nil, fmt.Errorf("load balancer %s is still being created", lb.ID)
	}
	if d.Hostname != "" {
		return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: d.Hostname}}}, nil
	}
	mode := corev1.LoadBalancerIPModeVIP
	if d.IPMode == "proxy" {
		mode = corev1.LoadBalancerIPModeProxy
	}
	published := &corev1.LoadBalancerStatus{}
	for _, family := range d.Families {
		at := slices.IndexFunc(lb.VIPs, func(vip cloudv1.VIP) bool { return vip.Family == family && vip.Address != "" })
		if at < 0 {
			return nil, fmt.Errorf("load balancer %s has no %s address yet", lb.ID, family)
		}
		published.Ingress = append(published.Ingress, corev1.LoadBalancerIngress{IP: lb.VIPs[at].Address, IPMode: &mode})
	}
	return published, nil
}
