package dlb_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/cloud"
)

// A list that is complete but lacks the load balancer does not end a Service: the recorded one is asked for by its ID.
func TestDeleteDespiteEmptyList(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	lb := f.publish(svc)
	f.options.Mirror.LoadBalancers.Drop(t.Context(), lb.ID)
	f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || r.URL.Path != "/v1/load-balancers" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, err := w.Write([]byte(`{"items":[],"revision":"1","complete":true}`))
		return err == nil
	})
	deleting(svc)
	state, err := f.Remove(t.Context(), f.put(svc))
	if err != nil || !state.Gone {
		t.Fatalf("state %+v, error %v", state, err)
	}
	f.cloud.Intercept(nil)
	if all := f.all(); len(all) != 0 {
		t.Errorf("%d load balancers leaked", len(all))
	}
}

// A Service whose load balancer was deleted by others is not gone before the cloud has confirmed that for a minute.
func TestDeleteOfWhatIsMissing(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.lose(f.publish(svc))
	deleting(svc)
	for try := range 3 {
		err := f.remove(svc)
		if done := try == 2; done != (err == nil) {
			t.Fatalf("try %d: error %v, want success: %t", try, err, done)
		}
		f.pass(30)
	}
}

// Deletion protection that others have switched on in the cloud is never switched off, neither by an update nor by a
// deletion.
func TestProtectionOfOthers(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	lb := f.publish(svc)
	on := true
	_, _, err := f.cloud.Client.PatchLoadBalancer(
		t.Context(), lb.ID, cloudv1.LoadBalancerPatch{DeletionProtection: &on}, cloudapi.WriteOptions{IfMatch: lb.Revision})
	if err != nil {
		t.Fatal(err)
	}
	f.cloud.Calls()
	f.mustEnsure(svc)
	f.expectNoWrites("protected by others")
	f.expectCondition(svc, metav1.ConditionTrue, "Configured", "its deletion protection was switched on in the cloud")
	// What the Service asks for later does not make it the Service's.
	for _, value := range []string{"true", "false"} {
		builder.DLB("deletion-protection", value)(svc)
		f.mustEnsure(svc)
	}
	deleting(svc)
	if err := f.remove(svc); err == nil {
		t.Error("removed")
	}
	f.expectCondition(svc, metav1.ConditionFalse, "DeletionProtected", "was switched on in the cloud")
	if !f.only().DeletionProtection {
		t.Error("the protection is off")
	}
}

// A released load balancer keeps its address and its listeners, but sends nothing to the nodes any more: the node ports
// will belong to others.
func TestRetainEmptiesPools(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service(builder.DLB("retain-on-delete", "true"))
	lb := f.publish(svc)
	deleting(svc)
	f.cloud.Calls()
	f.mustRemove(svc)
	f.expectCalls("release", "PUT load-balancers/{id}", "GET load-balancers/{id}")
	now := f.only()
	if now.VIPs[0].Address != lb.VIPs[0].Address || now.Name != lb.Name || len(now.Listeners) != 1 {
		t.Errorf("load balancer %+v, want address and name of %+v", now, lb)
	}
	for _, pool := range now.Pools {
		if pool.NodeGroupID != "" || len(pool.Members) > 0 {
			t.Errorf("pool %+v still has backends", pool)
		}
	}
}

// An adopted load balancer returns to its owner as it was offered, whatever its Service made of it.
func TestAdoptedReturns(t *testing.T) {
	for name, forged := range map[string]bool{"as it was": false, "with a forged record": true} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			was := f.offer()
			svc := builder.Service(builder.DLB("load-balancer-id", was.ID), builder.DLB("tags", "team=edge"),
				builder.DLB("deletion-protection", "true"), builder.DLB("zones", "eu-1a"))
			f.publish(svc)
			if now := f.only(); now.Name == was.Name || !now.DeletionProtection {
				t.Fatalf("not configured: %+v", now)
			}
			if forged {
				f.edit(svc, func(s *corev1.Service) {
					var record map[string]any
					if err := json.Unmarshal([]byte(s.Annotations[service.AnnotationRecord]), &record); err != nil {
						t.Fatal(err)
					}
					record["original"] = "H4sIAAAAAAAA/6uuBQBDv6ajAgAAAA=="
					raw, err := json.Marshal(record)
					if err != nil {
						t.Fatal(err)
					}
					s.Annotations[service.AnnotationRecord] = string(raw)
				})
			}
			deleting(svc)
			builder.DLB("deletion-protection", "false")(svc)
			f.mustRemove(svc)
			now := f.only()
			if _, ours := now.Tags[ownership.ServiceUID]; ours || now.VIPs[0].Address != was.VIPs[0].Address {
				t.Errorf("load balancer %+v", now)
			}
			if forged {
				if len(now.Pools) > 0 && now.Pools[0].NodeGroupID != "" {
					t.Errorf("pools %+v, want them empty", now.Pools)
				}
				return
			}
			ignore := cmpopts.IgnoreFields(cloudv1.Object{}, "Revision", "UpdatedAt")
			if diff := cmp.Diff(was, now, ignore); diff != "" {
				t.Errorf("unexpected load balancer (-want +got):\n%s", diff)
			}
		})
	}
}

// An adopted load balancer is not deleted with its Service, even if it loses tags that say that it was adopted.
func TestAdoptedIsNotDeleted(t *testing.T) {
	for name, lost := range map[string][]string{
		"offer":          {ownership.Adopt},
		"hash":           {ownership.Original},
		"offer and hash": {ownership.Adopt, ownership.Original},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			was := f.offer()
			svc := builder.Service(builder.DLB("load-balancer-id", was.ID))
			f.publish(svc)
			if f.only().DeletionProtection {
				f.protect(was, false)
			}
			for _, key := range lost {
				f.tag(was, key, nil)
			}
			f.sync()
			f.mustEnsure(svc)
			deleting(svc)
			f.mustRemove(svc)
			now := f.only()
			_, owned := now.Tags[ownership.ServiceUID]
			_, offered := now.Tags[ownership.Adopt]
			if owned || offered == slices.Contains(lost, ownership.Adopt) {
				t.Errorf("tags %v", now.Tags)
			}
			if now.Name != was.Name && !slices.Contains(lost, ownership.Original) {
				t.Errorf("name %q, want %q", now.Name, was.Name)
			}
		})
	}
}

// What others have changed of an adopted load balancer stays: its Service has not made it.
func TestAdoptedKeepsChangesOfOthers(t *testing.T) {
	f := start(t, 0)
	was := f.offer()
	svc := builder.Service(builder.DLB("load-balancer-id", was.ID), builder.DLB("tags", "owner=app,team=edge"))
	f.publish(svc)
	more := "7"
	f.tag(was, "cost", &more)
	f.protect(was, true)
	f.sync()
	f.mustEnsure(svc)
	deleting(svc)
	f.mustRemove(svc)
	now := f.only()
	want := map[string]string{ownership.Adopt: offer, "owner": "net", "cost": "7"}
	if diff := cmp.Diff(want, now.Tags); diff != "" || !now.DeletionProtection || now.Name != was.Name {
		t.Errorf("protected %t, name %q, tags (-want +got):\n%s", now.DeletionProtection, now.Name, diff)
	}
}

// An adopted load balancer that cannot return as it was offered does not keep its Service without a remedy.
func TestAdoptedCannotReturn(t *testing.T) {
	t.Run("its name is taken", func(t *testing.T) {
		f := start(t, 0)
		was := f.offer()
		svc := builder.Service(builder.DLB("load-balancer-id", was.ID))
		f.publish(svc)
		another := f.offer()
		deleting(svc)
		f.mustRemove(svc)
		for _, now := range f.all() {
			if _, owned := now.Tags[ownership.ServiceUID]; owned ||
				now.ID != another.ID && (now.Name != "dev-shop-web" || now.Listeners[0].Port != 9000) {
				t.Errorf("load balancer %+v", now)
			}
		}
	})
	t.Run("its node group is gone", func(t *testing.T) {
		f := start(t, 0)
		group, err := f.cloud.Client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "by-hand"}, cloudapi.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		was := f.offer(func(s *cloudv1.LoadBalancerSpec) { s.Pools[0].Members, s.Pools[0].NodeGroupID = nil, group.ID })
		svc := builder.Service(builder.DLB("load-balancer-id", was.ID))
		f.publish(svc)
		if err := f.cloud.Client.DeleteNodeGroup(t.Context(), group.ID, cloudapi.WriteOptions{IfMatch: group.Revision}); err != nil {
			t.Fatal(err)
		}
		deleting(svc)
		if err := f.remove(svc); err == nil {
			t.Fatal("removed")
		}
		f.expectCondition(svc, metav1.ConditionFalse, "RefusedByCloud", "without backends, remove its tag quaymaster.dev/original")
		f.tag(was, ownership.Original, nil)
		f.sync()
		f.mustRemove(svc)
		if now := f.only(); now.Tags[ownership.ServiceUID] != "" || now.Pools[0].NodeGroupID != "" {
			t.Errorf("load balancer %+v", now)
		}
	})
}

// protect switches the deletion protection on or off in the cloud.
func (f *fixture) protect(lb cloudv1.LoadBalancer, on bool) {
	f.t.Helper()
	now, err := f.cloud.Client.LoadBalancer(f.t.Context(), lb.ID)
	if err == nil {
		_, _, err = f.cloud.Client.PatchLoadBalancer(f.t.Context(), lb.ID,
			cloudv1.LoadBalancerPatch{DeletionProtection: &on}, cloudapi.WriteOptions{IfMatch: now.Revision})
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// Nothing of an adopted load balancer is changed before the Service has recorded what it was, not even after a crash.
func TestAdoptionIsRecordedFirst(t *testing.T) {
	f := start(t, 0)
	was := f.offer()
	svc := f.put(builder.Service(builder.DLB("load-balancer-id", was.ID)))
	for range 2 {
		state, err := f.Ensure(t.Context(), svc)
		if err != nil || state.Record == "" || state.Published != nil || state.RetryAfter == 0 {
			t.Fatalf("state %+v, error %v", state, err)
		}
		if now := f.only(); now.Name != was.Name || len(now.Listeners) != len(was.Listeners) {
			t.Fatalf("changed before it was recorded: %+v", now)
		}
		f.restart()
	}
	f.publish(svc)
	if now := f.only(); now.Name != "dev-shop-web" {
		t.Errorf("name %s", now.Name)
	}
}

// offer creates a load balancer that its owner offers to the Service.
func (f *fixture) offer(change ...func(*cloudv1.LoadBalancerSpec)) cloudv1.LoadBalancer {
	f.t.Helper()
	spec := cloudv1.LoadBalancerSpec{Name: "by-hand", Tags: map[string]string{ownership.Adopt: offer, "owner": "net"}}
	spec.Scheme, spec.BandwidthMbps, spec.Flavor = "public", 50, "large"
	spec.Listeners = []cloudv1.Listener{{Key: "tcp/9000", Protocol: "tcp", Port: 9000, PoolKey: "p"}}
	spec.Pools = []cloudv1.Pool{{
		Key: "p", Family: "ipv4", Protocol: "tcp", Algorithm: "round_robin", TargetPort: 9000,
		Members: []cloudv1.Member{{Key: "m", Address: "10.9.9.9", Port: 9000, Weight: 1, State: "active"}},
	}}
	for _, c := range change {
		c(&spec)
	}
	made, _, err := f.cloud.Client.CreateLoadBalancer(f.t.Context(), spec, cloudapi.WriteOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return *made
}

// What the Service has set is reset when it no longer asks for it; what others have set stays.
func TestRemovedSettings(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service(builder.DLB("zones", "eu-1a"), builder.DLB("flavor", "large"))
	f.publish(svc)
	delete(svc.Annotations, annotation+"zones")
	delete(svc.Annotations, annotation+"flavor")
	f.mustEnsure(svc)
	if lb := f.only(); len(lb.Zones) != 0 || lb.Flavor != "" {
		t.Errorf("zones %v, flavor %q, want them reset", lb.Zones, lb.Flavor)
	}
	lb := f.only()
	lb.Zones, lb.Flavor = []string{"eu-1b"}, "small"
	spec := cloudv1.LoadBalancerSpec{Name: lb.Name, Tags: lb.Tags, LoadBalancerFields: lb.LoadBalancerFields}
	if _, _, err := f.cloud.Client.UpdateLoadBalancer(
		t.Context(), lb.ID, spec, cloudapi.WriteOptions{IfMatch: lb.Revision}); err != nil {
		t.Fatal(err)
	}
	f.cloud.Calls()
	f.mustEnsure(svc)
	f.expectNoWrites("settings of others")
}

// A change that fails is not reported as configured, though the last one was.
func TestFailedChangeIsReported(t *testing.T) {
	for code, status := range map[string]int{cloudv1.CodeInternal: 500, cloudv1.CodeUnauthenticated: 401} {
		t.Run(code, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service()
			f.publish(svc)
			f.cloud.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				cloud.Problem(w, status, code)
				return true
			})
			stored := f.put(svc)
			if _, err := f.ensureStored(stored); err != nil {
				t.Errorf("nothing to do: %v", err)
			}
			f.expectCondition(svc, metav1.ConditionTrue, "Configured", "")
			builder.DLB("listener-maxqps", "9")(svc)
			if _, err := f.ensureStored(f.put(svc)); err == nil {
				t.Error("no error")
			}
			f.expectCondition(svc, metav1.ConditionUnknown, "SyncFailing", "will retry")
		})
	}
}
