package audit

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/internal/rules/template"
)

// templates validates the objects for which controllers create Services, of the kinds that the cluster serves.
func (a *audit) templates(ctx context.Context) error {
	api := discovery.ToDiscoveryInterfaceWithContext(a.API.Discovery())
	groups, err := api.ServerGroupsWithContext(ctx)
	if err != nil {
		a.Unread = append(a.Unread, unread(err, "get", "/apis"))
		return ctx.Err()
	}
	known := template.For(slices.Concat(template.BuiltIn(), a.Templates), a.Catalogs)
	listed := map[schema.GroupKind]bool{}
	for _, t := range known {
		kind := schema.GroupKind{Group: t.Group, Kind: t.Kind}
		if listed[kind] {
			continue
		}
		listed[kind] = true
		resource, err := served(ctx, api, groups, kind)
		if err == nil && resource != nil {
			err = a.annotated(ctx, resource, known)
		}
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			a.Unread = append(a.Unread, err)
		}
	}
	return nil
}

// served returns the resource of a kind in the preferred one of the versions that have it; nil if no version does.
func served(
	ctx context.Context, api discovery.DiscoveryInterfaceWithContext, groups *metav1.APIGroupList, kind schema.GroupKind,
) (*metav1.APIResource, error) {
	for _, group := range groups.Groups {
		if group.Name != kind.Group {
			continue
		}
		for _, version := range group.Versions { // in the order of preference
			list, err := api.ServerResourcesForGroupVersionWithContext(ctx, version.GroupVersion)
			if apierrors.IsNotFound(err) { // the CRD was deleted in the meantime
				continue
			}
			if err != nil {
				return nil, unread(err, "get", "/apis/"+version.GroupVersion)
			}
			for _, r := range list.APIResources {
				// Subresources have kinds, too, but cannot be listed.
				if r.Kind == kind.Kind && slices.Contains(r.Verbs, "list") {
					r.Group, r.Version = group.Name, version.Version
					return &r, nil
				}
			}
		}
	}
	return nil, nil //nolint:nilnil // most clusters have few of the kinds
}

// annotated validates the objects of a resource that have annotations of Services.
func (a *audit) annotated(ctx context.Context, r *metav1.APIResource, known []template.Template) error {
	resource := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Name}
	list := a.Objects.Resource(resource).List
	if a.Namespace != "" {
		if !r.Namespaced {
			return nil
		}
		list = a.Objects.Resource(resource).Namespace(a.Namespace).List
	}
	err := each(ctx, a, resource.GroupResource().String(), list, func(o *unstructured.Unstructured) {
		if o.GetDeletionTimestamp() != nil || !a.selects(o.GetNamespace()) {
			return
		}
		value := template.Value(o.Object)
		services, size, cut := 0, 0, false
		findings, paths := a.reviewer.Generated(o.GetNamespace(), o.GetName(), value,
			template.Of(known, o.GetAPIVersion(), o.GetKind()), func(path string) (map[string]string, bool) {
				of := value.Strings(path)
				services, size = services+1, size+len(of)
				cut = services > 1 && (services > template.MostServices || size > template.MostAnnotations)
				return of, !cut
			})
		if cut {
			findings = append(findings, review.Later(review.IDTooManyTemplates, fmt.Sprintf(
				"must have at most %d Services, with %d annotations; the others were not validated",
				template.MostServices, template.MostAnnotations)))
		}
		if len(paths) > 0 || cut {
			a.add(o.GetAPIVersion(), o.GetKind(), o, findings)
		}
	})
	if apierrors.IsNotFound(err) { // the CRD was deleted in the meantime
		return nil
	}
	return err
}
