package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/tool/manifest"
)

// apiVersions are those of the kinds that the linter uses.
var apiVersions = map[string]string{
	kindService: "v1", kindNamespace: "v1",
	v1alpha1.KindLoadBalancerPolicy:        v1alpha1.GroupVersion().String(),
	v1alpha1.KindClusterLoadBalancerPolicy: v1alpha1.GroupVersion().String(),
}

// Wanted reports whether the linter uses manifests of a kind, or reports them because their kind is missing or wrong.
func Wanted(apiVersion, kind string) bool {
	return kind == "" || used(apiVersion, kind) || misnamed(apiVersion, kind) != nil
}

// used reports whether the linter validates or uses objects of a kind. The author of a manifest without apiVersion
// means the usual one.
func used(apiVersion, kind string) bool {
	known, ok := apiVersions[kind]
	return ok && (apiVersion == known || apiVersion == "")
}

// misnamed returns the mistake in a kind or an apiVersion that probably means one that the linter uses, or nil.
func misnamed(apiVersion, kind string) *manifest.Mistake {
	known, ok := apiVersions[kind]
	group, _, _ := strings.Cut(apiVersion, "/")
	ownGroup, _, _ := strings.Cut(v1alpha1.GroupVersion().String(), "/")
	_, nearOwn := annotation.Suggest(group, []string{ownGroup})
	switch {
	case used(apiVersion, kind):
		return nil
	// Other APIs, whose groups have dots, also have kinds named Service.
	case ok && (!strings.Contains(group, ".") || nearOwn):
		return &manifest.Mistake{
			Path: "apiVersion", Value: apiVersion, Message: fmt.Sprintf("must be %s for kind %s", known, kind), Remedy: "correct it",
		}
	case kind == "" || ok:
		return nil
	}
	kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(apiVersions)), func(kind string) bool { return !used(apiVersion, kind) })
	if nearest, near := annotation.Suggest(kind, kinds); near {
		return &manifest.Mistake{
			Path: "kind", Value: kind, Message: "unknown kind", Remedy: fmt.Sprintf("did you mean %q?", nearest),
		}
	}
	if group == ownGroup {
		return &manifest.Mistake{
			Path: "kind", Value: kind, Message: "unknown kind of " + ownGroup,
			Remedy: fmt.Sprintf("use %s or %s", v1alpha1.KindLoadBalancerPolicy, v1alpha1.KindClusterLoadBalancerPolicy),
		}
	}
	return nil
}

// wrongKind returns the mistake in the kind of an object that the linter cannot use. ok is false for a document that
// does not look like an object at all, such as the values of a chart.
func wrongKind(o *manifest.Object) (mistake manifest.Mistake, ok bool) {
	if m := misnamed(o.APIVersion, o.Kind); m != nil {
		mistake = *m
	} else {
		mistake = manifest.Mistake{Path: "kind", Message: "must be set", Remedy: "add it, for example kind: " + kindService}
		ok = o.Has("metadata")
		if !ok {
			return mistake, false
		}
	}
	mistake.Place = o.Find(mistake.Path)
	return mistake, true
}
