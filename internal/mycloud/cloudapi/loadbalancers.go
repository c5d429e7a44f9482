package cloudapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi/lossless"
)

// LoadBalancer reads a load balancer with its tree.
func (c *Client) LoadBalancer(ctx context.Context, id string) (*cloudv1.LoadBalancer, error) {
	return get[cloudv1.LoadBalancer](ctx, c, "/v1/load-balancers/{id}", id)
}

// ListLoadBalancers reads all pages of the load balancers that o selects, with their trees.
func (c *Client) ListLoadBalancers(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.LoadBalancer], error) {
	return c.listTrees(ctx, o, lossless.LoadBalancer)
}

// ListKnownLoadBalancers is ListLoadBalancers, except that a load balancer that cannot be decoded does not fail the list: see
// LoadBalancer.Undecodable.
func (c *Client) ListKnownLoadBalancers(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.LoadBalancer], error) {
	return c.listTrees(ctx, o, lossless.Partial)
}

func (c *Client) listTrees(
	ctx context.Context, o ListOptions, decode func([]byte) (*cloudv1.LoadBalancer, error),
) (*cloudv1.List[cloudv1.LoadBalancer], error) {
	r := &request{path: "/v1/load-balancers", query: url.Values{"expand": {"tree"}}}
	raw, err := list[json.RawMessage](ctx, c, r, o)
	if err != nil {
		return nil, err
	}
	trees := &cloudv1.List[cloudv1.LoadBalancer]{Revision: raw.Revision, Complete: raw.Complete}
	trees.Items = make([]cloudv1.LoadBalancer, 0, len(raw.Items))
	for _, item := range raw.Items {
		lb, err := decode(item)
		if err != nil {
			return nil, malformed(r, err.Error())
		}
		trees.Items = append(trees.Items, *lb)
	}
	return trees, nil
}

// CreateLoadBalancer creates a load balancer. If the cloud continues in a job, it returns the job's id, for WaitJob;
// otherwise the id is empty. The same holds for the other writes.
func (c *Client) CreateLoadBalancer(
	ctx context.Context, s cloudv1.LoadBalancerSpec, o WriteOptions,
) (*cloudv1.LoadBalancer, string, error) {
	return writeLB(ctx, c, http.MethodPost, "/v1/load-balancers", "", s, o)
}

// UpdateLoadBalancer replaces the whole tree (PUT). It requires WriteOptions.IfMatch. VIPs keep id and address as long
// as the tree has their family.
//
// With WriteOptions.Base, the load balancer as last read, members of the tree that this client has no field for are
// kept. They belong to the load balancer or to a listener (by its key), a pool (key and family), a member (key) or a
// VIP (family), and are removed together with it. Without Base, the update erases them.
func (c *Client) UpdateLoadBalancer(
	ctx context.Context, id string, s cloudv1.LoadBalancerSpec, o WriteOptions,
) (*cloudv1.LoadBalancer, string, error) {
	var body any = s
	if o.Base != nil && o.Base.Unknown != nil {
		whole, err := lossless.Merge(s, o.Base.Unknown)
		if err != nil {
			return nil, "", fmt.Errorf("update load balancer %s: keep unknown members: %w", id, err)
		}
		body = whole
	}
	return writeLB(ctx, c, http.MethodPut, "/v1/load-balancers/{id}", id, body, o)
}

// PatchLoadBalancer changes name, tags or deletion protection, but not the tree. It requires WriteOptions.IfMatch.
func (c *Client) PatchLoadBalancer(
	ctx context.Context, id string, p cloudv1.LoadBalancerPatch, o WriteOptions,
) (*cloudv1.LoadBalancer, string, error) {
	return writeLB(ctx, c, http.MethodPatch, "/v1/load-balancers/{id}", id, p, o)
}

// AdoptLoadBalancer adds tags to a load balancer that has no other values for them. It requires WriteOptions.IfMatch.
func (c *Client) AdoptLoadBalancer(
	ctx context.Context, id string, tags map[string]string, o WriteOptions,
) (*cloudv1.LoadBalancer, string, error) {
	return writeLB(ctx, c, http.MethodPost, "/v1/load-balancers/{id}:adopt", id, cloudv1.Adoption{Tags: tags}, o)
}

// DeleteLoadBalancer deletes a load balancer with its tree and returns the id of the job, which is empty if the load
// balancer is already deleted. It requires WriteOptions.IfMatch.
func (c *Client) DeleteLoadBalancer(ctx context.Context, id string, o WriteOptions) (string, error) {
	_, job, err := writeLB(ctx, c, http.MethodDelete, "/v1/load-balancers/{id}", id, nil, o)
	return job, err
}

// ValidateLoadBalancer returns nil if CreateLoadBalancer would accept the tree.
func (c *Client) ValidateLoadBalancer(ctx context.Context, s cloudv1.LoadBalancerSpec) error {
	r := &request{method: http.MethodPost, path: "/v1/load-balancers:validate", body: s, asks: true}
	_, err := c.do(ctx, r, nil)
	return err
}

// LoadBalancerHealth reads the health of every member.
func (c *Client) LoadBalancerHealth(ctx context.Context, id string) (*cloudv1.Health, error) {
	r := &request{method: http.MethodGet, path: "/v1/load-balancers/{id}/health", id: id}
	return read[cloudv1.Health](ctx, c, r)
}

// LoadBalancerStats reads what the listeners have done on all edges.
func (c *Client) LoadBalancerStats(ctx context.Context, id string) (*cloudv1.Stats, error) {
	r := &request{method: http.MethodGet, path: "/v1/load-balancers/{id}/stats", id: id}
	return read[cloudv1.Stats](ctx, c, r)
}

func writeLB(
	ctx context.Context, c *Client, method, path, id string, body any, o WriteOptions,
) (*cloudv1.LoadBalancer, string, error) {
	var lb cloudv1.LoadBalancer
	r := o.request(method, path, id, body)
	if method == http.MethodPatch {
		r.header["Content-Type"] = cloudv1.MediaTypeMergePatch
	}
	resp, err := c.do(ctx, r, &lb)
	if err != nil {
		return nil, "", err
	}
	if lb.ID == "" && !o.DryRun {
		return nil, "", malformed(r, "the object has no id")
	}
	if resp.status != http.StatusAccepted {
		return &lb, "", nil
	}
	job, ok := jobID(resp.header.Get("Location"))
	if !ok {
		return nil, "", malformed(r, "status 202 without a job in Location")
	}
	return &lb, job, nil
}

// BatchMembers changes the members of many pools. The error is nil even if operations failed: see their results, which
// are in the order of the operations.
func (c *Client) BatchMembers(
	ctx context.Context, b cloudv1.MemberBatch, o WriteOptions,
) (*cloudv1.MemberBatchResult, error) {
	r := o.request(http.MethodPost, "/v1/member-batches", "", b)
	return readValid(ctx, c, r, "there is not one result per operation", func(res *cloudv1.MemberBatchResult) bool {
		return len(res.Results) == len(b.Operations)
	})
}

// ListAddresses reads all pages of the addresses of load balancers that o selects, those that are reserved included.
func (c *Client) ListAddresses(ctx context.Context, o ListOptions) (*cloudv1.List[cloudv1.Address], error) {
	return list[cloudv1.Address](ctx, c, &request{path: "/v1/addresses"}, o)
}
