package api

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
	"quaymaster.dev/internal/mycloud/store"
)

// PatchLoadBalancerParams are those of a change of a load balancer's metadata.
type PatchLoadBalancerParams struct {
	DeleteParams
	Body loadBalancerPatch
}

// loadBalancerPatch is a patch that remembers everything it names.
type loadBalancerPatch struct {
	cloudv1.LoadBalancerPatch
	named map[string]json.RawMessage
}

// UnmarshalJSON reads the patch, and the names.
func (b *loadBalancerPatch) UnmarshalJSON(raw []byte) error {
	if err := json.Unmarshal(raw, &b.named); err != nil {
		return err
	}
	return json.Unmarshal(raw, &b.LoadBalancerPatch)
}

// Resolve checks what the schema cannot. A field that load balancers have, but that no patch changes, is refused: unlike
// an unknown one, it must not look as if it had been changed.
func (p *PatchLoadBalancerParams) Resolve(huma.Context) []error {
	tags := map[string]string{}
	for k, v := range p.Body.Tags {
		if v != nil {
			tags[k] = *v
		}
	}
	problems := validateTags(tags)
	known, patched := jsonNames[cloudv1.LoadBalancer](), jsonNames[cloudv1.LoadBalancerPatch]()
	for _, name := range slices.Sorted(maps.Keys(p.Body.named)) {
		if folded := strings.ToLower(name); known[folded] && !patched[folded] {
			problems = append(problems, cloudv1.ProblemField{
				Pointer: "/" + name, Code: cloudv1.CodeUnsupported,
				Detail: "cannot be patched: a patch changes name, tags and deletion_protection",
			})
		}
	}
	return fields(problems)
}

// jsonNames are the names of the fields that a type has in JSON, whose decoder takes no notice of their case.
func jsonNames[T any]() map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names[strings.ToLower(name)] = true
		}
	}
	return names
}

// takesMergePatch documents the content types of a patch.
func (a *API) takesMergePatch(op *huma.Operation) {
	content := &huma.MediaType{Schema: a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[cloudv1.LoadBalancerPatch](), true, "")}
	op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{
		cloudv1.MediaTypeMergePatch: content, cloudv1.MediaTypeJSON: content,
	}}
}

// patchLoadBalancer changes what needs no work on the data path, so it is done at once.
func (a *API) patchLoadBalancer(_ context.Context, p *PatchLoadBalancerParams) (*Answer[cloudv1.LoadBalancer], error) {
	return change(a, p.WriteParams, func(tx *store.Tx) (*Answer[cloudv1.LoadBalancer], error) {
		lb, err := p.load(tx)
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
		if problems := validateTags(lb.Tags); len(problems) > 0 {
			return nil, invalid(problems)
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
