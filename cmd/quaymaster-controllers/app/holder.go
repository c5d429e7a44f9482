package app

import (
	"k8s.io/client-go/tools/record"

	"quaymaster.dev/internal/version"
	"quaymaster.dev/provider/holder"
)

// newHolder creates what claims the cluster's UID in the cloud, and withholds writes if another cluster holds it.
func (r *controllers) newHolder(recorder record.EventRecorder) *holder.Holder {
	return holder.New(holder.Options{
		Cloud: r.cloud, ClusterUID: r.clusterUID, ClusterID: r.config.ClusterID, Identity: r.identity.Identity,
		ClaimedBy: holder.ClaimedBy(controllersUserAgent + "/" + version.Version()), Recorder: recorder,
	})
}
