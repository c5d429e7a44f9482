package release

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/version"

	"quaymaster.dev/internal/kube/leadership"
	"quaymaster.dev/internal/tool/doctor"
)

// tolerance is the accepted difference between clocks: the API server reports its time in whole seconds, and the
// responses of the cloud take time.
const tolerance = 5 * time.Second

// APIServer checks that the API server answers, and compares its clock with this machine's.
func (r *Release) APIServer(ctx context.Context) doctor.Result {
	const remedy = "correct --kubeconfig or its credentials, until kubectl version succeeds with them"
	raw, err := r.API.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return doctor.Failed(remedy, "no response: %v", err)
	}
	var served version.Info
	if err := json.Unmarshal(raw, &served); err != nil || served.GitVersion == "" {
		return doctor.Failed(remedy, "the server is not a Kubernetes API server")
	}
	before := r.Clock.Now()
	self, err := leadership.Self(ctx, r.API)
	if err != nil {
		return doctor.Failed(remedy, "%v", err)
	}
	found := fmt.Sprintf("Kubernetes %s, as %s", served.GitVersion, self.Status.UserInfo.Username)
	offset, problem := r.Skew(self.CreationTimestamp.Time, before)
	r.offset = offset
	if problem != "" {
		return doctor.Warned(
			"synchronize the clocks with NTP; the checks of certificates and leases use the API server's clock",
			"%s; its clock is %s", found, problem)
	}
	return doctor.Passed("%s", found)
}

// Now returns the current time of the API server.
func (r *Release) Now() time.Time { return r.Clock.Now().Add(r.offset) }

// Skew returns how far another clock, which was asked at a time of this machine's, is ahead. The problem is empty if the
// difference does not matter.
func (r *Release) Skew(theirs, asked time.Time) (ahead time.Duration, problem string) {
	ahead = theirs.Sub(asked.Add(r.Clock.Since(asked) / 2)).Round(time.Second)
	switch {
	case ahead > tolerance:
		problem = fmt.Sprintf("%s ahead of this machine's", ahead)
	case ahead < -tolerance:
		problem = fmt.Sprintf("%s behind this machine's", -ahead)
	}
	return ahead, problem
}
