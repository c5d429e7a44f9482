package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/api/failure"
	"quaymaster.dev/internal/mycloud/store"
)

// WriteParams holds the parameters of all writes.
type WriteParams struct {
	IfMatch string `header:"If-Match" doc:"The revision that the object must have."`
	IfTags  string `header:"Mycloud-If-Tags" doc:"key=value,…: tags that the object must have. In a creation, the new object must have them."`
	Fence   string `header:"Mycloud-Fence" doc:"<cluster-uid>;epoch=<n>;holder=<fingerprint>: the leader that sends the write; epoch and holder are optional. If the cluster UID has a holder without this fingerprint, or the cloud has seen a higher epoch, the response is 412."`
	DryRun  bool   `query:"dry_run" doc:"Returns the response of the write, but changes nothing."`
}

// PostParams holds the parameters of writes by POST.
type PostParams struct {
	WriteParams
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"Makes the request take effect once. A successful response is kept for at least 24 hours and repeated; a problem leaves the key unused."`
}

// check returns an error unless an object meets the preconditions of a write.
func (p WriteParams) check(kind string, o *cloudv1.Object) error {
	if err := p.checkTags(kind, o); err != nil {
		return err
	}
	if p.IfMatch == "" || matches(p.IfMatch, o.Revision, false) {
		return nil
	}
	return failure.New(http.StatusPreconditionFailed, cloudv1.CodeStaleRevision, "%s %s has revision %s, not %s", kind, o.ID,
		o.Revision, p.IfMatch).On(kind, o.ID)
}

// demand is check for objects whose writes require If-Match.
func (p WriteParams) demand(kind string, o *cloudv1.Object) error {
	if p.IfMatch == "" {
		return failure.New(http.StatusPreconditionRequired, cloudv1.CodePreconditionRequired,
			"If-Match is required; set it to the revision to change").On(kind, o.ID)
	}
	return p.check(kind, o)
}

// demanded reads the object to change, if it meets the preconditions of the write.
func demanded[T any](tx *store.Tx, k store.Kind[T], p DeleteParams) (*T, error) {
	v, err := k.Get(tx, p.ID)
	if err != nil {
		return nil, err
	}
	return v, p.demand(k.Name, k.Object(v))
}

func (p WriteParams) checkTags(kind string, o *cloudv1.Object) error {
	want, err := p.tags()
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

func (p WriteParams) tags() (map[string]string, error) {
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

// matches reports whether a list of ETags contains a revision. Weak ETags match only if weak is true.
func matches(header, revision string, weak bool) bool {
	return anyTag(header, weak, func(tag string) bool { return tag == revision })
}

// anyTag reports whether a list of ETags contains one that fits. Weak ETags fit only if weak is true.
func anyTag(header string, weak bool, fits func(string) bool) bool {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimSpace(tag)
		if weak {
			tag = strings.TrimPrefix(tag, "W/")
		}
		if tag == "*" || !strings.HasPrefix(tag, "W/") && fits(strings.Trim(tag, `"`)) {
			return true
		}
	}
	return false
}

func etag(revision string) string { return `"` + revision + `"` }

// notModified returns the response to a conditional read whose revision is still current.
func notModified(revision string) error {
	return failure.New(http.StatusNotModified, "", "not modified").With("ETag", etag(revision))
}

const (
	tagsMax     = 64
	tagKeyMax   = 63
	tagValueMax = 255
)

// validateTags returns the problems of the tags of a body.
func validateTags(tags map[string]string) []cloudv1.ProblemField {
	var all []cloudv1.ProblemField
	add := func(key, format string, args ...any) {
		all = append(all, cloudv1.ProblemField{
			Pointer: "/tags" + key, Code: cloudv1.CodeInvalid, Detail: fmt.Sprintf(format, args...),
		})
	}
	if len(tags) > tagsMax {
		add("", "must have at most %d tags, not %d", tagsMax, len(tags))
	}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		v, at := tags[k], "/"+escaped(k)
		if k == "" || len(k) > tagKeyMax || strings.Trim(k, tagKeyChars) != "" || strings.ContainsAny(k[:1], "._/-") {
			add(at, "key must be 1 to %d letters, digits, '.', '_', '/' or '-', beginning with a letter or digit", tagKeyMax)
		}
		plain := func(r rune) bool { return r < ' ' || r > '~' || r == ',' || r == '=' }
		if len(v) > tagValueMax || strings.ContainsFunc(v, plain) {
			add(at, "value must be at most %d printable ASCII characters except ',' and '='", tagValueMax)
		}
	}
	return all
}

const tagKeyChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-"
