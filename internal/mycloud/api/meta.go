package api

import (
	"context"

	"quaymaster.dev/internal/mycloud/store"
	"quaymaster.dev/provider/cloudapi"
)

// None are the parameters of operations without any.
type None struct{}

// Plain is an answer without ETag.
type Plain[T any] struct{ Body T }

func (a *API) registerMeta() {
	o := operation{"get-meta", "meta", "What the cloud offers"}
	registerRead(a, o, "/v1/meta", func(context.Context, *None) (*Plain[cloudapi.Meta], error) {
		status := "ok"
		// A state that cannot be read is no state to conclude from.
		if err := a.Store.View(func(*store.Tx) error { return nil }); err != nil {
			status = "degraded"
		}
		return &Plain[cloudapi.Meta]{Body: cloudapi.Meta{
			APIVersion: Version, Capabilities: a.capabilities(), Status: status, ServerTime: a.Clock.Now().UTC(),
			Limits: cloudapi.Limits{
				PageMax: pageMax, TreePageMax: treePageMax, BatchMax: batchMax, MembersMax: membersMax, FilterIDs: filterIDs,
			},
		}}, nil
	})
}

// capabilities are what not every mycloud need have.
func (a *API) capabilities() []string {
	c := []string{cloudapi.CapabilityNodeGroups}
	if a.JobDuration > 0 {
		c = append(c, "jobs")
	}
	return c
}
