package dlb_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/cloud"
)

const offer = clusterUID + "/shop/web"

func TestAdopt(t *testing.T) {
	for name, tc := range map[string]struct {
		tags map[string]string
		err  string
	}{
		"offered":                    {tags: map[string]string{ownership.Adopt: offer, "owner": "net"}},
		"not offered":                {tags: map[string]string{"owner": "net"}, err: "requires the tag quaymaster.dev/adopt=" + offer},
		"offered to another service": {tags: map[string]string{ownership.Adopt: clusterUID + "/shop/other"}, err: "requires the tag quaymaster.dev/adopt="},
		"of another service": {
			tags: map[string]string{ownership.Adopt: offer, ownership.ClusterUID: clusterUID, ownership.ServiceUID: "other"},
			err:  "belongs to another service",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			spec := cloudv1.LoadBalancerSpec{Name: "by-hand", Tags: tc.tags}
			spec.Scheme = "public"
			spec.Network = &cloudv1.Network{VPCID: "vpc-elsewhere"}
			spec.Listeners, spec.Pools = []cloudv1.Listener{}, []cloudv1.Pool{}
			made, _, err := f.cloud.Client.CreateLoadBalancer(t.Context(), spec, cloudapi.WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			f.cloud.Calls()
			svc := builder.Service(builder.DLB("load-balancer-id", made.ID))
			status, err := f.ensure(svc)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				f.expectCondition(svc, metav1.ConditionFalse, "InvalidConfiguration", tc.err)
				if lb := f.only(); lb.Revision != made.Revision {
					t.Errorf("revision %s, want %s: nothing may be written", lb.Revision, made.Revision)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			f.expectCalls("adopt", "GET load-balancers/{id}", "PUT load-balancers/{id}",
				"POST load-balancers/{id}:adopt", "PUT load-balancers/{id}")
			lb := f.only()
			if status.Ingress[0].IP != made.VIPs[0].Address || lb.VIPs[0].ID != made.VIPs[0].ID {
				t.Errorf("address %v, want the adopted one's %v", status.Ingress, made.VIPs)
			}
			if lb.Tags[ownership.ServiceUID] != string(svc.UID) || lb.Tags[ownership.Adopt] != offer ||
				lb.Tags["owner"] != "net" ||
				len(lb.Listeners) != 1 {
				t.Errorf("unexpected load balancer %+v", lb)
			}
			f.cloud.Calls()
			f.mustEnsure(svc)
			f.expectCalls("again")
		})
	}
}

func TestAdoptBesideAnother(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.mustEnsure(svc)
	has := f.only()
	builder.DLB("load-balancer-id", "lb-another")(svc)
	if _, err := f.ensure(svc); err == nil ||
		!strings.Contains(err.Error(), "the service already has load balancer "+has.ID) {
		t.Errorf("error %v, want one that names %s", err, has.ID)
	}
}

// A load balancer that cannot be changed to what the Service asks for is not adopted: deleting the Service does not
// delete it.
func TestAdoptWhatCannotFit(t *testing.T) {
	for name, tc := range map[string]struct {
		scheme string
		option builder.ServiceOption
		err    string
	}{
		"scheme": {scheme: "internal", option: builder.DLB("network-type", "public"), err: "/scheme: is immutable"},
		"subnet": {
			scheme: "internal",
			option: func(svc *corev1.Service) {
				builder.DLB("network-type", "private")(svc)
				builder.DLB("subnet-id", "subnet-b2")(svc)
			},
			err: "/network: is immutable",
		},
		"zones": {scheme: "public", option: builder.DLB("zones", "eu-1x"), err: "must be one of the cloud's zones"},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			spec := cloudv1.LoadBalancerSpec{Name: "by-hand", Tags: map[string]string{ownership.Adopt: offer}}
			spec.Scheme = tc.scheme
			spec.Listeners, spec.Pools = []cloudv1.Listener{}, []cloudv1.Pool{}
			made, _, err := f.cloud.Client.CreateLoadBalancer(t.Context(), spec, cloudapi.WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			svc := builder.Service(builder.DLB("load-balancer-id", made.ID), tc.option)
			if _, err := f.ensure(svc); err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			f.expectCondition(svc, metav1.ConditionFalse, "InvalidConfiguration", tc.err)
			deleting(svc)
			f.mustRemove(svc)
			if lb := f.only(); lb.Revision != made.Revision {
				t.Errorf("revision %s, want %s: nothing may be written", lb.Revision, made.Revision)
			}
		})
	}
}

// The tags of others are kept, whatever tags the Service asks for, and those of the Service go when it no longer asks
// for them.
func TestTagsOfOthers(t *testing.T) {
	for name, adopted := range map[string]bool{"adopted": true, "made for the service": false} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service()
			if adopted {
				spec := cloudv1.LoadBalancerSpec{Name: "by-hand", Tags: map[string]string{ownership.Adopt: offer}}
				spec.Scheme, spec.Listeners, spec.Pools = "public", []cloudv1.Listener{}, []cloudv1.Pool{}
				made, _, err := f.cloud.Client.CreateLoadBalancer(t.Context(), spec, cloudapi.WriteOptions{})
				if err != nil {
					t.Fatal(err)
				}
				builder.DLB("load-balancer-id", made.ID)(svc)
			}
			f.mustEnsure(svc)
			value := "42"
			lb := f.only()
			_, _, err := f.cloud.Client.PatchLoadBalancer(
				t.Context(), lb.ID, cloudv1.LoadBalancerPatch{Tags: map[string]*string{"cost-center": &value}},
				cloudapi.WriteOptions{IfMatch: lb.Revision},
			)
			if err != nil {
				t.Fatal(err)
			}
			builder.DLB("tags", "team=edge")(svc)
			f.mustEnsure(svc)
			if tags := f.only().Tags; tags["cost-center"] != value || tags["team"] != "edge" {
				t.Errorf("tags %v, want team=edge and cost-center", tags)
			}
			f.cloud.Calls()
			f.mustEnsure(svc)
			if writes := cloud.Writes(f.cloud.Calls()); len(writes) != 0 {
				t.Errorf("writes %v, want none", writes)
			}
			delete(svc.Annotations, annotation+"tags")
			f.mustEnsure(svc)
			if tags := f.only().Tags; tags["cost-center"] != value || tags["team"] != "" {
				t.Errorf("tags %v, want cost-center and not team", tags)
			}
		})
	}
}
