package write

import (
	"net/http"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/etag"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/store"
)

// Params holds the parameters of all writes.
type Params struct {
	IfMatch string `header:"If-Match" doc:"The revision that the object must have."`
	IfTags  string `header:"Mycloud-If-Tags" doc:"key=value,…: tags that the object must have. In a creation, the new object must have them."`
	Fence   string `header:"Mycloud-Fence" doc:"<cluster-uid>;epoch=<n>;holder=<fingerprint>: the leader that sends the write; epoch and holder are optional. If the cluster UID has a holder without this fingerprint, or the cloud has seen a higher epoch, the response is 412."`
	DryRun  bool   `query:"dry_run" doc:"Returns the response of the write, but changes nothing."`
}

// Rehearses reports whether the write changes nothing.
func (p Params) Rehearses() bool { return p.DryRun }

// PostParams holds the parameters of writes by POST.
type PostParams struct {
	Params
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"Makes the request take effect once. A successful response is kept for at least 24 hours and repeated; a problem leaves the key unused."`
}

// ObjectParams holds the parameters of writes of one object.
type ObjectParams struct {
	Params
	ID string `path:"id" maxLength:"255" doc:"The id of the object."`
}

// Check returns an error unless an object meets the preconditions of a write.
func (p Params) Check(kind string, o *cloudv1.Object) error {
	if err := p.CheckTags(kind, o); err != nil {
		return err
	}
	if p.IfMatch == "" || etag.Matches(p.IfMatch, o.Revision, false) {
		return nil
	}
	return failure.New(http.StatusPreconditionFailed, cloudv1.CodeStaleRevision, "%s %s has revision %s, not %s", kind, o.ID,
		o.Revision, p.IfMatch).On(kind, o.ID)
}

// Demand is Check for objects whose writes require If-Match.
func (p Params) Demand(kind string, o *cloudv1.Object) error {
	if p.IfMatch == "" {
		return failure.New(http.StatusPreconditionRequired, cloudv1.CodePreconditionRequired,
			"If-Match is required; set it to the revision to change").On(kind, o.ID)
	}
	return p.Check(kind, o)
}

// Checked reads the object to change, if it meets the preconditions of the write.
func Checked[T any](tx *store.Tx, k store.Kind[T], p ObjectParams) (*T, error) {
	v, err := k.Get(tx, p.ID)
	if err != nil {
		return nil, err
	}
	return v, p.Check(k.Name, k.Object(v))
}

// Demanded is Checked for objects whose writes require If-Match.
func Demanded[T any](tx *store.Tx, k store.Kind[T], p ObjectParams) (*T, error) {
	v, err := k.Get(tx, p.ID)
	if err != nil {
		return nil, err
	}
	return v, p.Demand(k.Name, k.Object(v))
}

// CheckTags returns an error unless an object has the tags that the write demands.
func (p Params) CheckTags(kind string, o *cloudv1.Object) error {
	want, err := p.Tags()
	if err != nil {
		return err
	}
	for k, v := range want {
		if has, ok := o.Tags[k]; !ok || has != v {
			return failure.New(http.StatusPreconditionFailed, cloudv1.CodeTagsMismatch, "%s %s does not have the tag %s=%s",
				kind, o.ID, k, v).On(kind, o.ID)
		}
	}
	return nil
}

// Tags parses the tags that the write demands.
func (p Params) Tags() (map[string]string, error) {
	if p.IfTags == "" {
		return nil, nil
	}
	tags := map[string]string{}
	for pair := range strings.SplitSeq(p.IfTags, ",") {
		k, v, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || k == "" {
			return nil, failure.InvalidField(
				"header/"+cloudv1.HeaderIfTags, "must be key=value pairs separated by commas, not %q", p.IfTags,
			)
		}
		tags[k] = v
	}
	return tags, nil
}
