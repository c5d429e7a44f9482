// Package clusters serves which cluster may write in the name of a cluster UID.
package clusters

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/describe"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/fence"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/api/write"
	"quaymaster.dev/internal/mycloud/server/store"
)

// api serves the operations.
type api struct {
	write *write.Writer
}

// claimHolderParams holds the parameters of claim-cluster-holder.
type claimHolderParams struct {
	write.ObjectParams
	Body cloudv1.ClusterHolderSpec
}

// Resolve validates what the schema cannot express.
func (p *claimHolderParams) Resolve(huma.Context) []error {
	var problems []cloudv1.ProblemField
	for i, value := range p.Body.Fingerprints {
		if problem := fence.FingerprintProblem(value); problem != "" {
			problems = append(problems, cloudv1.ProblemField{Pointer: fmt.Sprintf("/fingerprints/%d", i), Detail: problem})
		}
	}
	return failure.Fields(problems)
}

// holderAnswer is the response to a write of a holder.
type holderAnswer = operation.Answer[cloudv1.ClusterHolder]

// Register adds the operations of holders.
func Register(r *read.Reader, w *write.Writer) {
	a := &api{write: w}
	const tag, path = "clusters", "/v1/clusters/{id}/holder"
	read.RegisterObject(r, operation.New("get-cluster-holder", tag, "The cluster that may write in the name of a cluster UID"),
		path, read.View[cloudv1.ClusterHolder]{Kind: store.Holders})
	operation.Write(r.API, operation.New("claim-cluster-holder", tag, "Claims a cluster UID"),
		http.MethodPut, path, []int{http.StatusOK, http.StatusCreated}, a.claimHolder,
		describe.Means("Creates the record of the cluster that may write in the name of the cluster UID. With If-Match, hands the "+
			"cluster UID over to another cluster."))
	operation.Write(r.API, operation.New("delete-cluster-holder", tag, "Releases a cluster UID"),
		http.MethodDelete, path, []int{http.StatusOK}, a.deleteHolder, describe.DemandsRevision,
		describe.Means("Deletes the record, so that any cluster can claim the cluster UID."))
}

func (a *api) claimHolder(_ context.Context, p *claimHolderParams) (*holderAnswer, error) {
	return write.Change(a.write, p.Params, func(tx *store.Tx) (*holderAnswer, error) {
		record, err := fence.Holder(tx, p.ID)
		switch {
		case err != nil:
			return nil, err
		case record == nil && p.IfMatch != "":
			return nil, &store.NotFoundError{Kind: store.Holders.Name, ID: p.ID}
		case record == nil:
			first := &cloudv1.ClusterHolder{Object: cloudv1.Object{ID: p.ID}, Since: tx.Now}
			// The leaders before the record count.
			first.Epoch = fence.Epoch(tx, p.ID)
			return putHolder(tx, http.StatusCreated, first, p.Body)
		case p.IfMatch == "":
			return nil, failure.New(http.StatusPreconditionFailed, cloudv1.CodeStaleRevision,
				"cluster UID %s has a holder; to hand it over, set If-Match to %s", p.ID, record.Revision).On(store.Holders.Name, p.ID)
		}
		if err := p.Check(store.Holders.Name, &record.Object); err != nil {
			return nil, err
		}
		same := func(value string) bool { return slices.Contains(record.Fingerprints, value) }
		if !slices.ContainsFunc(p.Body.Fingerprints, same) {
			// Each cluster counts its leaders itself.
			record.Since, record.Epoch = tx.Now, 0
		}
		return putHolder(tx, http.StatusOK, record, p.Body)
	})
}

func putHolder(
	tx *store.Tx, status int, record *cloudv1.ClusterHolder, s cloudv1.ClusterHolderSpec,
) (*holderAnswer, error) {
	record.Name, record.Fingerprints, record.ClaimedBy = s.Name, s.Fingerprints, s.ClaimedBy
	if _, err := store.Holders.Put(tx, record); err != nil {
		return nil, err
	}
	return write.Done(status, store.Holders, record), nil
}

func (a *api) deleteHolder(_ context.Context, p *write.ObjectParams) (*holderAnswer, error) {
	return write.Change(a.write, p.Params, func(tx *store.Tx) (*holderAnswer, error) {
		record, err := write.Demanded(tx, store.Holders, *p)
		if err != nil {
			return nil, err
		}
		if err := store.Holders.Delete(tx, p.ID); err != nil {
			return nil, err
		}
		return write.Done(http.StatusOK, store.Holders, record), nil
	})
}
