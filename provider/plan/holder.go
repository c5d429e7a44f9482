package plan

import (
	"context"
	"errors"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/contact"
	"quaymaster.dev/provider/holder"
)

// withheld returns why the controllers may not write to the cloud at all, or an empty string.
func (p *planner) withheld(ctx context.Context) (string, error) {
	uid, err := p.cluster.UID(ctx)
	if err != nil {
		return "", err
	}
	err = holder.New(holder.Options{
		Cloud: records{p.cloud}, ClusterUID: uid, ClusterID: p.Options.Config.ClusterID, Identity: p.Identity,
		Recorder: p.record, Memory: memory{contact.Memory{Client: p.api, Namespace: p.Namespace}},
	}).Withhold(ctx)
	if refusal, refused := errors.AsType[*holder.RefusedError](err); refused {
		return refusal.Error(), nil
	}
	return "", unplanned(err)
}

// memory lets a Holder read which cloud is the cluster's. That the controllers write it is not part of a plan.
type memory struct{ contact.Memory }

// Remember implements holder.Memory.
func (memory) Remember(context.Context, string) error { return nil }

// records lets a Holder read the record of the cluster's holder. That the controllers write it when they start is not
// part of a plan.
type records struct{ *cloudapi.Client }

// ClaimHolder implements holder.Records.
func (records) ClaimHolder(
	context.Context, string, cloudv1.ClusterHolderSpec, cloudapi.WriteOptions,
) (*cloudv1.ClusterHolder, error) {
	return nil, cloudapi.ErrPlanned
}
