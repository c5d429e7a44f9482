package routetable

import (
	"context"
	"errors"
	"net/http"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/route"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// splits bounds how many more requests are sent to find the changes for which the cloud rejects requests.
const splits = 32

// Change implements route.Table with as few requests as possible.
func (t *Table) Change(ctx context.Context, changes []route.Change) []error {
	errs := make([]error, len(changes))
	tags, err := t.cluster.Tags(ctx)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	w := writer{Table: t, tags: tags, splits: splits}
	for at := range slices.Chunk(positions(changes), batchSize) {
		w.write(ctx, changes, at, errs)
	}
	return errs
}

// positions returns the positions of changes in the order of a request: first those that write, then those that remove.
func positions(changes []route.Change) []int {
	var write, remove []int
	for i, c := range changes {
		if c.Remove {
			remove = append(remove, i)
		} else {
			write = append(write, i)
		}
	}
	return append(write, remove...)
}

// writer writes changes in batches.
type writer struct {
	*Table

	tags   map[string]string
	splits int
	// outage is the error after which no more requests are sent, because the cloud does not process any.
	outage error
}

// write sends the changes at the positions and stores their errors. If the cloud rejects the request as a whole, it may
// be because of one of them: then each half is sent on its own.
func (w *writer) write(ctx context.Context, changes []route.Change, at []int, errs []error) {
	err := w.outage
	var result *cloudv1.RoutesBatchResult
	if err == nil {
		result, err = w.cloud.BatchRoutes(ctx, w.id, w.batch(changes, at), cloudapi.WriteOptions{IfTags: w.tags})
	}
	switch {
	case err == nil:
		for n, i := range at {
			errs[i] = refusal(changes[i], result.Results[n].Error)
		}
		return
	case rejected(err) && len(at) > 1 && w.splits > 0:
		w.splits -= 2
		half := len(at) / 2
		w.write(ctx, changes, at[:half], errs)
		w.write(ctx, changes, at[half:], errs)
		return
	case !answered(err):
		w.outage = err
	}
	for _, i := range at {
		errs[i] = err
	}
}

func (w *writer) batch(changes []route.Change, at []int) cloudv1.RoutesBatch {
	var batch cloudv1.RoutesBatch
	for _, i := range at {
		hop := cloudv1.NextHop(changes[i].Hop)
		destination := changes[i].Destination.String()
		if changes[i].Remove {
			batch.Remove = append(batch.Remove, cloudv1.RouteRemoval{Destination: destination, NextHop: &hop})
		} else {
			batch.Upsert = append(batch.Upsert, cloudv1.RouteSpec{Destination: destination, NextHop: hop, Tags: w.tags})
		}
	}
	return batch
}

// rejected reports whether the cloud rejects a request for what it contains.
func rejected(err error) bool {
	var e *cloudapi.Error
	return errors.As(err, &e) && e.Problem != nil &&
		(e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity ||
			e.Status == http.StatusRequestEntityTooLarge)
}

// answered reports whether the cloud processes requests, so that another one may succeed.
func answered(err error) bool {
	var e *cloudapi.Error
	return errors.As(err, &e) && e.Problem != nil &&
		e.Status != http.StatusTooManyRequests && e.Status != http.StatusServiceUnavailable
}
