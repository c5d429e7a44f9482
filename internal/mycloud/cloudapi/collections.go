package cloudapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// ErrIncomplete is returned for a list that the cloud itself marks as incomplete.
var ErrIncomplete = errors.New("the cloud reports an incomplete list")

// object is a pointer to an object of the cloud.
type object[T any] interface {
	*T
	Metadata() *cloudv1.Object
}

// read sends a request whose response is a T.
func read[T any](ctx context.Context, c *Client, r *request) (*T, error) {
	v := new(T)
	if _, err := c.do(ctx, r, v); err != nil {
		return nil, err
	}
	return v, nil
}

// readValid is read for a T that can be recognized as malformed: flaw says what is wrong unless valid is true.
func readValid[T any](ctx context.Context, c *Client, r *request, flaw string, valid func(*T) bool) (*T, error) {
	v, err := read[T](ctx, c, r)
	if err == nil && !valid(v) {
		return nil, malformed(r, flaw)
	}
	return v, err
}

// get reads one object and checks its id: an empty response of something other than the cloud must not be taken for an
// object.
func get[T any, P object[T]](ctx context.Context, c *Client, path, id string) (P, error) {
	return getBy[T, P](ctx, c, &request{method: http.MethodGet, path: path, id: id})
}

// getBy is get for a request.
func getBy[T any, P object[T]](ctx context.Context, c *Client, r *request) (P, error) {
	v, err := read[T](ctx, c, r)
	if err != nil {
		return nil, err
	}
	if id := P(v).Metadata().ID; id != r.id {
		return nil, malformed(r, fmt.Sprintf("the object's id is %q", id))
	}
	return v, nil
}

// write sends a write whose response is the object.
func write[T any, P object[T]](
	ctx context.Context, c *Client, method, path, id string, body any, o WriteOptions,
) (P, error) {
	return send[T, P](ctx, c, o.request(method, path, id, body), o)
}

// send is write for a request.
func send[T any, P object[T]](ctx context.Context, c *Client, r *request, o WriteOptions) (P, error) {
	return readValid(ctx, c, r, "the object has no id", func(v *T) bool { return P(v).Metadata().ID != "" || o.DryRun })
}

// maxPages bounds how many pages a list may have: a server or a proxy that never ends a list must not cost memory and
// requests without end. With the largest pages, these are 100 000 load balancers or 500 000 instances.
const maxPages = 1000

// list reads all pages of one snapshot.
func list[T any](ctx context.Context, c *Client, r *request, o ListOptions) (*cloudv1.List[T], error) {
	r.method, r.query = http.MethodGet, o.query(r.query)
	if o.IfNoneMatch != "" {
		r.header = map[string]string{"If-None-Match": etag(o.IfNoneMatch)}
	}
	var all *cloudv1.List[T]
	first, header := maps.Clone(r.query), r.header
	seen := map[string]bool{}
	for again := false; ; {
		page, err := read[cloudv1.List[T]](ctx, c, r)
		if all != nil && !again && HasCode(err, cloudv1.CodePageTokenExpired) {
			// The pages of a snapshot are with the server that has failed, or was restarted.
			all, again, r.query, r.header = nil, true, maps.Clone(first), header
			clear(seen)
			continue
		}
		if err != nil {
			return nil, err
		}
		switch {
		case page.Items == nil || page.Revision == "":
			return nil, malformed(r, "items or revision is missing")
		case all == nil:
			all = page
		case page.Revision != all.Revision:
			return nil, malformed(r, fmt.Sprintf("a page of revision %s follows one of %s", page.Revision, all.Revision))
		default:
			all.Items = append(all.Items, page.Items...)
			all.Complete = page.Complete
		}
		if page.NextPageToken == "" {
			break
		}
		if seen[page.NextPageToken] {
			return nil, malformed(r, "a page token is repeated")
		}
		if seen[page.NextPageToken] = true; len(seen) >= maxPages {
			return nil, malformed(r, fmt.Sprintf("more than %d pages", maxPages))
		}
		// The page token stands for the snapshot, which is newer than the revision that the caller has.
		r.header = nil
		r.query.Set("page_token", page.NextPageToken)
	}
	all.NextPageToken = ""
	if !all.Complete {
		return nil, fmt.Errorf("%s: %w", r, ErrIncomplete)
	}
	return all, nil
}

func (o ListOptions) query(q url.Values) url.Values {
	v := maps.Clone(q)
	if v == nil {
		v = url.Values{}
	}
	for _, k := range slices.Sorted(maps.Keys(o.Tags)) {
		v.Add("tag", k+":"+o.Tags[k])
	}
	if len(o.IDs) > 0 {
		v["id"] = o.IDs
	}
	if o.Name != "" {
		v.Set("name", o.Name)
	}
	if o.State != "" {
		v.Set("state", o.State)
	}
	if o.IncludeDeleted {
		v.Set("include_deleted", "true")
	}
	if o.PageSize > 0 {
		v.Set("limit", strconv.Itoa(o.PageSize))
	}
	return v
}
