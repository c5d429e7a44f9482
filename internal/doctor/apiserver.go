package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/version"

	"quaymaster.dev/internal/leadership"
)

// clockTolerance is how far clocks may be apart: the API server tells its own in whole seconds, the cloud answers late.
const clockTolerance = 5 * time.Second

func (e *examination) apiServer(ctx context.Context) Result {
	const remedy = "correct --kubeconfig, or its credentials; kubectl version must work with them"
	raw, err := e.API.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return fail(remedy, "it does not answer: %v", err)
	}
	var served version.Info
	if err := json.Unmarshal(raw, &served); err != nil || served.GitVersion == "" {
		return fail(remedy, "what answers is no API server")
	}
	before := e.Clock.Now()
	self, err := leadership.Self(ctx, e.API)
	if err != nil {
		return fail(remedy, "%v", err)
	}
	found := fmt.Sprintf("Kubernetes %s, as %s", served.GitVersion, self.Status.UserInfo.Username)
	e.offset = difference(self.CreationTimestamp.Time, before, e.Clock.Now())
	if e.offset.Abs() > clockTolerance {
		return warn("set the clocks by NTP; certificates and leases are judged by the API server's here",
			"%s; its clock is %s", found, ahead(e.offset, "this machine's"))
	}
	return ok("%s", found)
}

// now is the API server's time.
func (e *examination) now() time.Time { return e.Clock.Now().Add(e.offset) }

// difference is how far another clock is ahead, if it was read between two times of ours.
func difference(theirs, before, after time.Time) time.Duration {
	return theirs.Sub(before.Add(after.Sub(before) / 2)).Round(time.Second)
}

func ahead(d time.Duration, of string) string {
	if d < 0 {
		return fmt.Sprintf("%s behind %s", -d, of)
	}
	return fmt.Sprintf("%s ahead of %s", d, of)
}
