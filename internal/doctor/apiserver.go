package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/version"

	"quaymaster.dev/internal/leadership"
)

// clockTolerance is the accepted difference between clocks: the API server reports its time in whole seconds, and the
// responses of the cloud take time.
const clockTolerance = 5 * time.Second

func (e *examination) apiServer(ctx context.Context) Result {
	const remedy = "correct --kubeconfig or its credentials, until kubectl version succeeds with them"
	raw, err := e.API.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return fail(remedy, "no response: %v", err)
	}
	var served version.Info
	if err := json.Unmarshal(raw, &served); err != nil || served.GitVersion == "" {
		return fail(remedy, "the server is not a Kubernetes API server")
	}
	before := e.Clock.Now()
	self, err := leadership.Self(ctx, e.API)
	if err != nil {
		return fail(remedy, "%v", err)
	}
	found := fmt.Sprintf("Kubernetes %s, as %s", served.GitVersion, self.Status.UserInfo.Username)
	e.offset = difference(self.CreationTimestamp.Time, before, e.Clock.Now())
	if e.offset.Abs() > clockTolerance {
		return warn("synchronize the clocks with NTP; the checks of certificates and leases use the API server's clock",
			"%s; its clock is %s", found, ahead(e.offset, "this machine's"))
	}
	return ok("%s", found)
}

// now returns the current time of the API server.
func (e *examination) now() time.Time { return e.Clock.Now().Add(e.offset) }

// difference returns how far another clock, read between before and after, is ahead of ours.
func difference(theirs, before, after time.Time) time.Duration {
	return theirs.Sub(before.Add(after.Sub(before) / 2)).Round(time.Second)
}

func ahead(d time.Duration, of string) string {
	if d < 0 {
		return fmt.Sprintf("%s behind %s", -d, of)
	}
	return fmt.Sprintf("%s ahead of %s", d, of)
}
