package plan

import (
	"context"
	"errors"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/holder"
)

// withheld returns why the controllers may not write to the cloud at all, or an empty string.
func (p *planner) withheld(ctx context.Context) (string, error) {
	uid, err := p.cluster.UID(ctx)
	if err != nil {
		return "", err
	}
	if err = p.cloud.Identify(ctx); err == nil {
		err = holder.New(holder.Options{
			Cloud: records{p.cloud}, ClusterUID: uid, ClusterID: p.Options.Config.ClusterID, Identity: p.Identity,
			Recorder: p.record,
		}).Withhold(ctx)
	}
	if refusal, refused := errors.AsType[*holder.RefusedError](err); refused {
		return refusal.Error(), nil
	}
	return "", unplanned(err)
}

// records lets a Holder read the record of the cluster's holder. That the controllers write it when they start is not
// part of a plan.
type records struct{ *cloudapi.Client }

// ClaimHolder implements holder.Records.
func (records) ClaimHolder(
	context.Context, string, cloudv1.ClusterHolderSpec, cloudapi.WriteOptions,
) (*cloudv1.ClusterHolder, error) {
	return nil, cloudapi.ErrPlanned
}
