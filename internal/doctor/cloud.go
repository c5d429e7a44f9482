package doctor

import (
	"context"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
)

// cloud looks whether the cloud answers from here, with the token of the cloud config.
func (e *examination) cloud(ctx context.Context) Result {
	if e.Cloud == nil {
		return skip("no --cloud-config says where it is")
	}
	before := e.Clock.Now()
	meta, err := e.Cloud.Meta(ctx)
	if cloudapi.HasCode(err, cloudv1.CodeUnauthenticated) {
		return fail("put a valid token into the file that the cloud config names as tokenFile", "it refuses the token")
	}
	if err != nil {
		return fail("correct endpoint of the cloud config, or see what is between here and the cloud", "it does not answer: %v", err)
	}
	if meta.Status != cloudv1.StatusOK {
		return warn("wait for the cloud's operators; meanwhile the controllers keep what there is", "API %s is %s", meta.APIVersion, meta.Status)
	}
	if d := difference(meta.ServerTime, before, e.Clock.Now()); d.Abs() > clockTolerance {
		return warn("set the clocks by NTP", "API %s; its clock is %s", meta.APIVersion, ahead(d, "this machine's"))
	}
	return ok("API %s answers", meta.APIVersion)
}
