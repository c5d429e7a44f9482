package api

import (
	"context"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/store"
)

// None are the parameters of operations without any.
type None struct{}

// Plain is an answer without ETag.
type Plain[T any] struct{ Body T }

func (a *API) registerMeta() {
	o := operation{"get-meta", "meta", "What the cloud offers"}
	registerRead(a, o, "/v1/meta", func(context.Context, *None) (*Plain[cloudv1.Meta], error) {
		status := cloudv1.StatusOK
		// A state that cannot be read is no state to conclude from.
		if err := a.Store.View(func(*store.Tx) error { return nil }); err != nil {
			status = cloudv1.StatusDegraded
		}
		return &Plain[cloudv1.Meta]{Body: cloudv1.Meta{
			APIVersion: cloudv1.Version, Capabilities: a.capabilities(), Status: status, ServerTime: a.Clock.Now().UTC(),
			Limits: cloudv1.Limits{
				PageMax: pageMax, TreePageMax: treePageMax, BatchMax: batchMax, MembersMax: membersMax, FilterIDs: filterIDs,
			},
		}}, nil
	})
}

// capabilities are what not every mycloud need have.
func (a *API) capabilities() []string {
	c := []string{cloudv1.CapabilityNodeGroups}
	if a.JobDuration > 0 {
		c = append(c, cloudv1.CapabilityJobs)
	}
	return c
}
