package api

import (
	"context"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/store"
)

// None is for operations without parameters.
type None struct{}

// Plain is a response without ETag.
type Plain[T any] struct{ Body T }

func (a *API) registerMeta() {
	o := operation{"get-meta", "meta", "Describes the API and what this cloud offers"}
	registerRead(a, o, "/v1/meta", func(context.Context, *None) (*Plain[cloudv1.Meta], error) {
		status, id, revision := cloudv1.StatusOK, "", ""
		// If the state cannot be read, clients must not conclude anything from it.
		err := a.Store.View(func(tx *store.Tx) error {
			id, revision = tx.CloudID(), tx.Revision()
			return nil
		})
		if err != nil {
			status = cloudv1.StatusDegraded
		}
		return &Plain[cloudv1.Meta]{Body: cloudv1.Meta{
			ID: id, APIVersion: cloudv1.Version, Capabilities: a.capabilities(), Status: status, Revision: revision,
			ServerTime: a.Clock.Now().UTC(),
			Limits: cloudv1.Limits{
				PageMax: pageMax, TreePageMax: treePageMax, BatchMax: batchMax, MembersMax: membersMax, FilterIDs: filterIDs,
			},
		}}, nil
	})
}

// capabilities returns the optional features of this cloud.
func (a *API) capabilities() []string {
	c := []string{
		cloudv1.CapabilityNodeGroups, cloudv1.CapabilityChanges, cloudv1.CapabilityFencing, cloudv1.CapabilityHolders,
		cloudv1.CapabilityMemberBatches,
	}
	edges := a.EdgeToken != "" || len(a.EdgeTokens) > 0
	if a.JobDuration > 0 || edges {
		c = append(c, cloudv1.CapabilityJobs)
	}
	if edges {
		c = append(c, cloudv1.CapabilityEdges)
	}
	return c
}
