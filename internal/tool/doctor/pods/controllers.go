package pods

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quaymaster.dev/internal/kube/leadership"
	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/release"
)

const remedyForeign = "find out what it is, such as another cloud-controller-manager or a second release, and stop it, or give " +
	"one of them a different lease (cloudController.leaderElection)"

// Leader checks that a replica of the controllers leads and that the others run; if not, why their pods do not. It
// records the epoch of the leader.
func (c Checks) Leader(ctx context.Context) doctor.Result {
	role := c.Controllers
	if role == nil {
		return doctor.Skipped("the release does not include controllers")
	}
	if !role.Elects() {
		return c.Running(ctx, role, "the controllers run without leader election")
	}
	namespace, name := role.LeaseName()
	lease, err := c.API.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = nil, nil
	}
	if err != nil {
		return doctor.Unread("lease "+namespace+"/"+name, err)
	}
	state := leadership.Of(lease, c.Now())
	if state.Held {
		c.Epoch = new(int64(ptr.Deref(lease.Spec.LeaseTransitions, 0)))
		leader, foreign := c.leader(ctx, role, state.Holder)
		found := fmt.Sprintf("%s is the leader and holds lease %s/%s", leader, namespace, name)
		if foreign {
			found = fmt.Sprintf("%s holds lease %s/%s and is not a pod of this release", leader, namespace, name)
		}
		r := c.Running(ctx, role, found)
		if foreign && r.Level == doctor.OK {
			r.Level, r.Remedy = doctor.Warn, remedyForeign
		}
		if r.Level == doctor.Fail {
			r.Level = doctor.Warn // whatever leads is not a pod of this release, or was ready a moment ago
		}
		return r
	}
	found := fmt.Sprintf("no controllers hold lease %s/%s, so nothing is reconciled", namespace, name)
	if state.Holder != "" {
		found = fmt.Sprintf("%s holds lease %s/%s but last renewed it %s ago, so nothing is reconciled",
			state.Holder, namespace, name, state.Age.Round(time.Second))
	}
	if role.Template == nil && state.Holder == "" {
		return doctor.Skipped("this release does not deploy the controllers, and none hold lease %s/%s, as without leader election",
			namespace, name)
	}
	if role.Template == nil {
		return doctor.Warned("check that the controllers are running; this release does not deploy them", "%s", found)
	}
	r := c.Running(ctx, role, found)
	if r.Level == doctor.OK {
		r.Remedy = "see the log of the controllers for why they cannot write the lease: " +
			c.LogCommand(release.ControllersComponent)
	}
	r.Level = doctor.Fail
	return r
}

// leader describes the holder of a lease. foreign is true if it is not a pod of the role. An identity is the name of the
// pod and a random part.
func (c Checks) leader(ctx context.Context, role *release.Role, holder string) (text string, foreign bool) {
	if role.Template == nil {
		return holder, false
	}
	pods, err := c.API.CoreV1().Pods(c.Namespace).List(ctx, c.Selector(role.Component))
	if err != nil || len(pods.Items) == 0 {
		return holder, false
	}
	for _, pod := range pods.Items {
		if strings.HasPrefix(holder, pod.Name+"_") {
			return fmt.Sprintf("pod %s on Node %s", pod.Name, pod.Spec.NodeName), false
		}
	}
	return holder, true
}
