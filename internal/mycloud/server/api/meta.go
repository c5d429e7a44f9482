package api

import (
	"context"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/loadbalancers"
	"quaymaster.dev/internal/mycloud/server/api/members"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/store"
)

// The limits of one request that parameters and bodies document.
const (
	pageMax   = 500
	batchMax  = 500
	filterIDs = 100
)

// registerMeta adds the description of this cloud.
func registerMeta(r *read.Reader, o Options, tokens *access.Tokens) {
	op := operation.New("get-meta", "meta", "Describes the API and what this cloud offers")
	operation.Read(r.API, op, "/v1/meta", func(context.Context, *struct{}) (*operation.Plain[cloudv1.Meta], error) {
		status, id, revision, edges := cloudv1.StatusOK, "", "", false
		// If the state cannot be read, clients must not conclude anything from it.
		err := r.Store.View(func(tx *store.Tx) error {
			id, revision, edges = tx.CloudID(), tx.Revision(), tokens.AcceptEdges(tx)
			return nil
		})
		if err != nil {
			status = cloudv1.StatusDegraded
		}
		return &operation.Plain[cloudv1.Meta]{Body: cloudv1.Meta{
			ID: id, APIVersion: cloudv1.Version, Capabilities: o.capabilities(edges), Status: status, Revision: revision,
			ServerTime: o.Clock.Now().UTC(),
			Limits: cloudv1.Limits{
				PageMax: pageMax, TreePageMax: loadbalancers.TreePageMax, BatchMax: batchMax, MembersMax: members.Max, FilterIDs: filterIDs,
			},
		}}, nil
	})
}

// capabilities returns the optional features of this cloud.
func (o *Options) capabilities(edges bool) []string {
	c := []string{
		cloudv1.CapabilityNodeGroups, cloudv1.CapabilityChanges, cloudv1.CapabilityFencing, cloudv1.CapabilityHolders,
		cloudv1.CapabilityMemberBatches,
	}
	if o.JobDuration > 0 || edges {
		c = append(c, cloudv1.CapabilityJobs)
	}
	if edges {
		c = append(c, cloudv1.CapabilityEdges)
	}
	return c
}
