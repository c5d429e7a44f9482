package dlb_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server/fault"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

func deleting(svc *corev1.Service) {
	now := metav1.Now()
	svc.DeletionTimestamp = &now
	svc.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
}

// remove deletes the load balancer of the cluster's Service.
func (f *fixture) remove(svc *corev1.Service) error {
	f.t.Helper()
	f.sync()
	return f.removeStored(f.put(svc))
}

func (f *fixture) mustRemove(svc *corev1.Service) {
	f.t.Helper()
	if err := f.remove(svc); err != nil {
		f.t.Fatalf("remove: %v", err)
	}
}

func TestDelete(t *testing.T) {
	for name, duration := range map[string]time.Duration{"at once": 0, "by a job": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			f := start(t, duration)
			svc := builder.Service()
			f.settle(svc)
			f.cloud.Calls()
			deleting(svc)
			// Other errors of the Service no longer matter.
			builder.DLB("listener-maxqps", "many")(svc)
			env.Eventually(t, 10*time.Second, "deletion", func(context.Context) error { return f.remove(svc) })
			if duration == 0 {
				f.expectCalls("delete", "DELETE load-balancers/{id}", "GET load-balancers/{id}")
			}
			if all := f.all(); len(all) != 0 {
				t.Errorf("%d load balancers are left", len(all))
			}
			f.cloud.Calls()
			if err := f.remove(svc); err != nil {
				t.Errorf("delete again: %v", err)
			}
			f.expectCalls("delete again", "GET load-balancers", "GET meta")
		})
	}
}

func TestDeleteThatTakesLongIsNotDone(t *testing.T) {
	f := start(t, time.Hour)
	svc := builder.Service()
	if _, err := f.ensure(svc); err == nil {
		t.Fatal("created within an hour")
	}
	deleting(svc)
	for range 2 {
		if err := f.remove(svc); err == nil {
			t.Fatal("deleted, though the cloud is still working")
		}
	}
	f.only()
}

// The cloud keeps a load balancer whose deletion has failed until another deletion. The reason is shown, and it is deleted
// again, less and less often, also if the Service wants a load balancer again by then.
func TestFailedDeletionIsTriedAgain(t *testing.T) {
	for name, wanted := range map[string]bool{"the Service is deleted": false, "the Service wants one again": true} {
		t.Run(name, func(t *testing.T) {
			f := start(t, time.Millisecond)
			svc := builder.Service()
			f.settle(svc)
			id := f.only().ID
			f.cloud.Faults(t, fault.Plan{Rules: []fault.Rule{{
				Job: "load-balancer.delete", Code: cloudv1.CodeCapacity, Count: 3,
			}}})
			deleted := svc.DeepCopy()
			deleting(deleted)
			if err := f.remove(deleted); err == nil {
				t.Fatal("deleted, though the cloud has failed to")
			}
			for _, step := range []struct{ after, deletions int }{{0, 1}, {29, 0}, {1, 1}, {59, 0}, {1, 1}} {
				env.Eventually(t, 10*time.Second, "the deletion fails", func(context.Context) error {
					if f.only().Fault == nil {
						return errors.New("it has not failed")
					}
					return nil
				})
				f.pass(step.after)
				f.sync()
				f.cloud.Calls()
				var err error
				if wanted {
					_, err = f.ensure(svc)
				} else {
					err = f.remove(deleted)
				}
				writes := cloud.Writes(f.cloud.Calls())
				if len(writes) != step.deletions || step.deletions == 1 && !strings.HasPrefix(writes[0], "DELETE ") {
					t.Fatalf("after %d seconds: writes %v, want %d deletions", step.after, writes, step.deletions)
				}
				if want := "deletion of load balancer " + id + " failed: capacity"; step.deletions == 0 &&
					(err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
			env.Eventually(t, 10*time.Second, "the load balancer is gone", func(context.Context) error {
				if slices.ContainsFunc(f.all(), func(lb cloudv1.LoadBalancer) bool { return lb.ID == id }) {
					return errors.New("it is there")
				}
				return nil
			})
		})
	}
}

func TestDeletionProtection(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service(builder.DLB("deletion-protection", "true"))
	f.mustEnsure(svc)
	if !f.only().DeletionProtection {
		t.Fatal("the load balancer is not protected")
	}
	deleting(svc)
	f.cloud.Calls()
	err := f.remove(svc)
	if err == nil || !strings.Contains(err.Error(), "set the annotation "+annotation+"deletion-protection to false") {
		t.Fatalf("error %v, want one that names the remedy", err)
	}
	f.expectCondition(svc, metav1.ConditionFalse, "DeletionProtected", err.Error())
	if writes := cloud.Writes(f.cloud.Calls()); len(writes) != 0 {
		t.Errorf("writes %v, want none", writes)
	}
	builder.DLB("deletion-protection", "false")(svc)
	f.mustRemove(svc)
	if all := f.all(); len(all) != 0 {
		t.Errorf("%d load balancers are left", len(all))
	}
}

func TestRetainOnDelete(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service(builder.DLB("retain-on-delete", "true"), builder.DLB("tags", "team=edge"))
	f.mustEnsure(svc)
	deleting(svc)
	f.mustRemove(svc)
	f.expectEvent("Released load balancer dev-shop-web")
	lb := f.only()
	_, cluster := lb.Tags[ownership.ClusterUID]
	_, service := lb.Tags[ownership.ServiceUID]
	if cluster || service || lb.Tags["team"] != "edge" {
		t.Errorf("tags %v, want those of the user alone", lb.Tags)
	}
	if err := f.remove(svc); err != nil || f.only().Revision != lb.Revision {
		t.Errorf("again: error %v, want none, and the load balancer as it was released", err)
	}
}

// An invalid value might have been meant to keep the load balancer.
func TestDeleteWithUnreadableWish(t *testing.T) {
	for _, key := range []string{"retain-on-delete", "deletion-protection"} {
		t.Run(key, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service()
			f.mustEnsure(svc)
			deleting(svc)
			builder.DLB(key, "True")(svc)
			err := f.remove(svc)
			if err == nil || !strings.Contains(err.Error(), "metadata.annotations["+annotation+key+"]") {
				t.Fatalf("error %v, want one that names the annotation", err)
			}
			f.only()
		})
	}
}

// A Service that becomes a ClusterIP loses its load balancer and its condition.
func TestDeleteOfServiceThatStays(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.mustEnsure(svc)
	svc.Spec.Type = corev1.ServiceTypeClusterIP
	f.mustRemove(svc)
	if c := f.condition(svc); c != nil {
		t.Errorf("condition %+v stays", c)
	}
}

func TestDeleteSurvivesRace(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.mustEnsure(svc)
	lb := f.only()
	raced := false
	f.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete && !raced {
			raced = true
			name := "renamed"
			_, _, err := f.cloud.Client.PatchLoadBalancer(t.Context(), lb.ID, cloudv1.LoadBalancerPatch{Name: &name},
				cloudapi.WriteOptions{IfMatch: lb.Revision})
			if err != nil {
				t.Error(err)
			}
		}
		return false
	})
	deleting(svc)
	if err := f.remove(svc); err != nil || !raced {
		t.Fatalf("delete: %v, raced %t", err, raced)
	}
}

// The finalizer is removed only after the cloud itself has confirmed that the load balancer is gone.
func TestDeleteNeedsConfirmation(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.mustEnsure(svc)
	id := f.only().ID
	f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || r.URL.Path != "/v1/load-balancers/"+id {
			return false
		}
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	deleting(svc)
	if err := f.remove(svc); err == nil {
		t.Error("a proxy's 404 passed for the load balancer's absence")
	}
}

// The idempotency key of the released load balancer does not lead to it any more: its new owner keeps it.
func TestRetainAndBack(t *testing.T) {
	theirs := map[string]string{ownership.ClusterUID: "other-cluster", ownership.ServiceUID: "other-service"}
	for name, retag := range map[string]bool{"released": false, "taken by someone else": true} {
		t.Run(name, func(t *testing.T) {
			f := start(t, 0)
			svc := builder.Service(builder.DLB("retain-on-delete", "true"))
			before := f.mustEnsure(svc)
			svc.Spec.Type = corev1.ServiceTypeClusterIP
			f.mustRemove(svc)
			released := f.only()
			if retag {
				taken, _, err := f.cloud.Client.AdoptLoadBalancer(
					t.Context(), released.ID, theirs, cloudapi.WriteOptions{IfMatch: released.Revision},
				)
				if err != nil {
					t.Fatal(err)
				}
				released = *taken
			}
			svc.Spec.Type = corev1.ServiceTypeLoadBalancer
			after := f.mustEnsure(svc)
			if after.Ingress[0].IP == before.Ingress[0].IP {
				t.Errorf("the address %s of the released load balancer is published", after.Ingress[0].IP)
			}
			if all := f.all(); len(all) != 2 {
				t.Errorf("%d load balancers, want 2", len(all))
			}
			now, err := f.cloud.Client.LoadBalancer(t.Context(), released.ID)
			if err != nil || now.Revision != released.Revision {
				t.Errorf("the released load balancer is %+v, %v; want it unchanged", now, err)
			}
		})
	}
}

// TestDeleteSurvivesOutageInRace: the load balancer changed, and the cloud then stops to respond.
func TestDeleteSurvivesOutageInRace(t *testing.T) {
	f := start(t, 0)
	svc := builder.Service()
	f.settle(svc)
	f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			cloud.Problem(w, http.StatusPreconditionFailed, cloudv1.CodeStaleRevision)
		} else {
			cloud.Problem(w, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
		}
		return true
	})
	deleting(svc)
	if err := f.remove(svc); err == nil {
		t.Fatal("deleted without the cloud")
	}
	f.cloud.Intercept(nil)
	env.Eventually(t, 10*time.Second, "deletion", func(context.Context) error { return f.remove(svc) })
}

// A Service is a load balancer again while the cloud is still deleting its former one: the end of that one, which was
// asked for, is no loss that the cloud would have to confirm for a minute.
func TestDeletedThenWantedAgain(t *testing.T) {
	for name, flips := range map[string]int{"once": 1, "again and again": 4} {
		t.Run(name, func(t *testing.T) {
			f := start(t, time.Second)
			svc := builder.Service()
			f.settle(svc)
			first := f.only().ID
			for range flips {
				stored := f.stored(svc)
				if err := f.remove(stored); err == nil {
					t.Fatal("deleted at once")
				}
				if _, err := f.ensure(svc); err == nil {
					t.Fatal("ensured while the cloud is still deleting")
				}
			}
			f.edit(svc, func(s *corev1.Service) { s.Status.LoadBalancer = corev1.LoadBalancerStatus{} })
			f.settle(svc) // within ten seconds, during which the clock of the Balancer stands still
			if lb := f.only(); lb.ID == first {
				t.Error("the load balancer that was being deleted is back")
			}
		})
	}
}
