package loadbalancers

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/write"
	"quaymaster.dev/internal/mycloud/server/store"
)

// patchLoadBalancerParams holds the parameters of patch-load-balancer.
type patchLoadBalancerParams struct {
	write.ObjectParams
	Body loadBalancerPatch
}

// loadBalancerPatch is a patch that keeps the names of all its fields.
type loadBalancerPatch struct {
	cloudv1.LoadBalancerPatch
	named map[string]json.RawMessage
}

// UnmarshalJSON decodes the patch and the names of its fields.
func (b *loadBalancerPatch) UnmarshalJSON(raw []byte) error {
	if err := json.Unmarshal(raw, &b.named); err != nil {
		return err
	}
	return json.Unmarshal(raw, &b.LoadBalancerPatch)
}

// Resolve validates what the schema cannot express. It rejects fields that load balancers have but that cannot be
// patched: unlike unknown ones, they must not be ignored as if they had been changed.
func (p *patchLoadBalancerParams) Resolve(huma.Context) []error {
	tags := map[string]string{}
	for k, v := range p.Body.Tags {
		if v != nil {
			tags[k] = *v
		}
	}
	problems := write.ValidateTags(tags)
	known, patched := jsonNames[cloudv1.LoadBalancer](), jsonNames[cloudv1.LoadBalancerPatch]()
	for _, name := range slices.Sorted(maps.Keys(p.Body.named)) {
		if folded := strings.ToLower(name); known[folded] && !patched[folded] {
			problems = append(problems, cloudv1.ProblemField{
				Pointer: "/" + name, Code: cloudv1.CodeUnsupported,
				Detail: "cannot be patched; only name, tags and deletion_protection can",
			})
		}
	}
	return failure.Fields(problems)
}

// jsonNames returns the JSON names of a type's fields in lower case, since the JSON decoder ignores case.
func jsonNames[T any]() map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names[strings.ToLower(name)] = true
		}
	}
	return names
}

// patchLoadBalancer changes fields that do not affect the data path, so it needs no job.
func (a *LoadBalancers) patchLoadBalancer(_ context.Context, p *patchLoadBalancerParams) (*treeAnswer, error) {
	return write.Change(a.Write, p.Params, func(tx *store.Tx) (*treeAnswer, error) {
		lb, err := load(tx, p.ObjectParams)
		if err != nil {
			return nil, err
		}
		for k, v := range p.Body.Tags {
			if v == nil {
				delete(lb.Tags, k)
			} else {
				lb.Tags[k] = *v
			}
		}
		if problems := write.ValidateTags(lb.Tags); len(problems) > 0 {
			return nil, failure.Invalid(problems)
		}
		if p.Body.DeletionProtection != nil {
			lb.DeletionProtection = *p.Body.DeletionProtection
		}
		if p.Body.Name != nil {
			was := lb.Name
			lb.Name = *p.Body.Name
			if err := takeName(tx, lb, was); err != nil {
				return nil, err
			}
		}
		return a.storeLoadBalancer(tx, lb, http.StatusOK, "")
	})
}
