package availability_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

// afterLease is the promise for new work: how long after the expiry of a dead leader's lease it is done.
const afterLease = 5 * time.Second

// A leader dies; another one is paused for longer than its lease lasts. The steps depend on each other.
func TestLeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start("first")
	holder := w.leader("", soon)
	w.settled()
	second := w.start("second")
	w.quiet(first)
	holder = takeover(w, holder, first, second)
	third := w.start("third")
	paused(w, holder, second, third)
}

// settled waits until the controllers have finished all work.
func (w *world) settled() {
	w.t.Helper()
	for i := range 3 {
		svc := &corev1.Service{}
		svc.Namespace, svc.Name = "shop", fmt.Sprintf("web-%d", i)
		w.published(svc, soon)
	}
	env.Eventually(w.t, time.Minute, "routes, zones and counts", func(ctx context.Context) error {
		var nodes corev1.NodeList
		if err := w.Client.List(ctx, &nodes); err != nil {
			return err
		}
		for _, node := range nodes.Items {
			if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
			}) {
				return fmt.Errorf("%s has no network", node.Name)
			}
		}
		volume := &corev1.PersistentVolume{}
		if err := w.Client.Get(ctx, client.ObjectKey{Name: "data"}, volume); err != nil {
			return err
		}
		if volume.Labels[corev1.LabelTopologyZone] == "" {
			return errors.New("the volume has no zone")
		}
		return nil
	})
}

// takeover kills the leader while a user continues to work. The other replica does that work in time and nothing else.
func takeover(w *world, holder string, leader, other *replica) string {
	end := w.audit.end(w.t)
	killed := time.Now()
	leader.Kill()
	w.mark("node-4", "edge")
	svc := w.grouped("late", "edge")
	w.published(svc, w.duration+afterLease)
	w.members("edge", killed.Add(w.duration+afterLease), "i-node-4")
	w.t.Logf("new work was done %s after the end of the leader", time.Since(killed).Round(time.Millisecond))
	w.quiet(other)

	var asked []string
	for _, call := range cloud.Writes(other.cloud.since(0)) {
		asked = append(asked, strings.Join(strings.Split(call, "/")[:3], "/"))
	}
	want := []string{"POST /v1/node-groups", "PATCH /v1/node-groups", "POST /v1/load-balancers"}
	if diff := cmp.Diff(want, asked); diff != "" {
		w.t.Errorf("writes to the cloud (-want +got):\n%s", diff)
	}
	for _, write := range w.writes(other, end) {
		kind := strings.Fields(write)[1]
		if write == "patch configmaps "+contact.ConfigMap {
			continue // whether the cloud answers the new leader
		}
		if kind != "leases" && kind != "events" && !strings.HasSuffix(write, " late") {
			w.t.Errorf("the takeover wrote: %s", write)
		}
	}
	return w.leader(holder, soon)
}

// paused pauses the leader, lets the other replica take over, and resumes it while there is new work. It must not write
// any more, and must exit.
func paused(w *world, holder string, leader, other *replica) {
	w.quiet(leader)
	signal := func(s syscall.Signal) {
		if err := leader.Signal(s); err != nil {
			w.t.Fatal(err)
		}
	}
	asked := len(leader.cloud.since(0))
	signal(syscall.SIGSTOP)
	stopped := w.audit.end(w.t)
	w.leader(holder, w.duration+soon)
	w.published(w.grouped("meanwhile", "edge"), soon)

	var contested []*corev1.Service
	for i := range 10 {
		contested = append(contested, w.grouped(fmt.Sprintf("contested-%d", i), "edge"))
	}
	w.mark("node-3", "edge")
	signal(syscall.SIGCONT)
	code, err := leader.Wait(w.renewDeadline + afterLease)
	if err != nil || code == 0 {
		w.t.Errorf("the former leader ends with %d, %v", code, err)
	}
	for _, svc := range contested {
		w.published(svc, soon)
	}
	w.members("edge", time.Now().Add(soon), "i-node-3", "i-node-4")
	w.quiet(other)
	if writes := cloud.Writes(leader.cloud.since(asked)); len(writes) > 0 {
		w.t.Errorf("the former leader wrote to the cloud: %q", writes)
	}
	if writes := w.writes(leader, stopped); len(writes) > 0 {
		w.t.Errorf("the former leader wrote to the API server: %q", writes)
	}
}

// members waits until a group has exactly these instances.
func (w *world) members(group string, until time.Time, want ...string) {
	w.t.Helper()
	env.Eventually(w.t, time.Until(until), "members of group "+group, func(ctx context.Context) error {
		list, err := w.cloud.Client.ListNodeGroups(ctx, cloudapi.ListOptions{Name: "dev-" + group})
		if err != nil || len(list.Items) != 1 {
			return fmt.Errorf("%v, %w; want one group", list, err)
		}
		var got []string
		for _, m := range list.Items[0].Members {
			got = append(got, m.InstanceID)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}
