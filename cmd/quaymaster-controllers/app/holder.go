package app

import (
	ccmconfig "k8s.io/cloud-provider/app/config"

	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/version"
	"quaymaster.dev/provider/holder"
)

// newHolder creates what identifies the cloud and claims the cluster's UID there, and withholds writes if another cluster
// holds it.
func (r *controllers) newHolder(completed *ccmconfig.CompletedConfig) *holder.Holder {
	return holder.New(holder.Options{
		Cloud: r.cloud, ClusterUID: r.clusterUID, ClusterID: r.config.ClusterID, Identity: r.identity.Identity,
		Memory: contact.Memory{
			Client: r.api, Namespace: completed.ComponentConfig.Generic.LeaderElection.ResourceNamespace,
		},
		ClaimedBy: holder.ClaimedBy(controllersUserAgent + "/" + version.Version()), Recorder: completed.EventRecorder,
	})
}
