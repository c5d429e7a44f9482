package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/store"
)

// ClaimHolderParams holds the parameters of claim-cluster-holder.
type ClaimHolderParams struct {
	DeleteParams
	Body cloudv1.ClusterHolderSpec
}

// Resolve validates what the schema cannot express.
func (p *ClaimHolderParams) Resolve(huma.Context) []error {
	var problems []cloudv1.ProblemField
	for i, value := range p.Body.Fingerprints {
		if !isFingerprint(value) {
			problems = append(problems, cloudv1.ProblemField{
				Pointer: fmt.Sprintf("/fingerprints/%d", i),
				Detail:  fmt.Sprintf("must be 1 to %d letters, digits or :._/[]-", fingerprintMax),
			})
		}
	}
	return failure.Fields(problems)
}

const (
	fingerprintMax   = 128
	fingerprintChars = tagKeyChars + ":[]"
)

func isFingerprint(value string) bool {
	return value != "" && len(value) <= fingerprintMax && strings.Trim(value, fingerprintChars) == ""
}

// holderAnswer is the response to a write of a holder.
type holderAnswer = Answer[cloudv1.ClusterHolder]

func (a *API) registerHolders() {
	const tag, path = "clusters", "/v1/clusters/{id}/holder"
	registerGet(a, operation{"get-cluster-holder", tag, "The cluster that may write in the name of a cluster UID"},
		path, view[cloudv1.ClusterHolder]{kind: store.Holders})
	registerWrite(a, operation{"claim-cluster-holder", tag, "Claims a cluster UID"},
		http.MethodPut, path, []int{http.StatusOK, http.StatusCreated}, a.claimHolder,
		means("Creates the record of the cluster that may write in the name of the cluster UID. With If-Match, hands the "+
			"cluster UID over to another cluster."))
	registerWrite(a, operation{"delete-cluster-holder", tag, "Releases a cluster UID"},
		http.MethodDelete, path, []int{http.StatusOK}, a.deleteHolder, demandsRevision,
		means("Deletes the record, so that any cluster can claim the cluster UID."))
}

func (a *API) claimHolder(_ context.Context, p *ClaimHolderParams) (*holderAnswer, error) {
	return change(a, p.WriteParams, func(tx *store.Tx) (*holderAnswer, error) {
		record, err := holderOf(tx, p.ID)
		switch {
		case err != nil:
			return nil, err
		case record == nil && p.IfMatch != "":
			return nil, &store.NotFoundError{Kind: store.Holders.Name, ID: p.ID}
		case record == nil:
			first := &cloudv1.ClusterHolder{Object: cloudv1.Object{ID: p.ID}, Since: tx.Now}
			// The leaders before the record count.
			first.Epoch = fence{cluster: p.ID}.seen(tx, nil)
			return putHolder(tx, http.StatusCreated, first, p.Body)
		case p.IfMatch == "":
			return nil, failure.New(http.StatusPreconditionFailed, cloudv1.CodeStaleRevision,
				"cluster UID %s has a holder; to hand it over, set If-Match to %s", p.ID, record.Revision).On(store.Holders.Name, p.ID)
		}
		if err := p.check(store.Holders.Name, &record.Object); err != nil {
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
	return done(status, store.Holders, record), nil
}

func (a *API) deleteHolder(_ context.Context, p *DeleteParams) (*holderAnswer, error) {
	return change(a, p.WriteParams, func(tx *store.Tx) (*holderAnswer, error) {
		record, err := demanded(tx, store.Holders, *p)
		if err != nil {
			return nil, err
		}
		if err := store.Holders.Delete(tx, p.ID); err != nil {
			return nil, err
		}
		return done(http.StatusOK, store.Holders, record), nil
	})
}
