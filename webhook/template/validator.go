// Package template implements admission for objects of which controllers create Services: the annotations of those
// Services are validated when their author writes them, and not only when the controller does.
package template

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	engine "quaymaster.dev/internal/rules/template"
	"quaymaster.dev/webhook"
)

// Policies returns the policies of namespaces.
type Policies interface {
	// Applicable returns the policies of a namespace. It fails while they are not known.
	Applicable(ctx context.Context, namespace string) ([]*policy.Policy, error)
}

// Options are the dependencies of the Admitter of this package.
type Options struct {
	Reviewer review.Reviewer
	Policies Policies
	// Templates say where objects have annotations. Objects of other kinds are allowed.
	Templates []engine.Template
}

// NewValidator returns the Admitter of objects of any kind that a template is about. It refuses those with errors and
// returns warnings.
func NewValidator(o Options) webhook.Admitter {
	kinds := pathsOf(o.Templates)
	return webhook.Admitter{
		Decodable: func() webhook.Decodable { return &decodable{kinds: kinds} }, Admit: o.validate,
	}
}

// validate refuses objects with errors: 422 Invalid with one cause per problem.
func (o *Options) validate(ctx context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
	oldObject, newObject := webhook.Objects[*object](req)
	current, cut := o.templates(newObject, req.Namespace)
	if len(current) == 0 && !cut {
		return webhook.Allow(), nil
	}
	old, _ := o.templates(oldObject, req.Namespace)
	applicable, err := o.Policies.Applicable(ctx, req.Namespace)
	findings := o.Reviewer.Templates(ctx, old, current, applicable)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Policies are not known", "object", klog.KObj(newObject), "kind", newObject.Kind,
			"rule", review.IDPoliciesUnavailable)
		findings = append(findings, review.Later(review.IDPoliciesUnavailable,
			"was not validated by policies, because they are not available"))
	}
	if cut {
		findings = append(findings, review.Later(review.IDTooManyTemplates, fmt.Sprintf(
			"must have at most %d Services, with %d annotations of %d bytes in %d elements of lists; the others were not validated",
			engine.MostServices, engine.MostAnnotations, mostBytes, mostElements)))
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("review %s: %w", newObject.Kind, err)
	}
	return req.Respond(findings), nil
}

// templates returns the annotations of Services in an object. cut is true if there are more.
func (o *Options) templates(from *object, namespace string) (all []review.Template, cut bool) {
	if from == nil {
		return nil, false
	}
	size := 0
	for _, t := range engine.Of(o.Templates, from.APIVersion, from.Kind) {
		var fields map[string][]string
		if !from.partial { // otherwise not all values are known
			fields = t.ValuesOf(from)
		}
		for _, place := range t.Places(from) {
			annotations := from.annotations[place.Path]
			if size += len(annotations); len(all) > 0 && (len(all) == engine.MostServices || size > engine.MostAnnotations) {
				return all, true
			}
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: from.Name, Annotations: annotations,
			}}
			svc.Spec.LoadBalancerClass = place.Class
			all = append(all, review.Template{
				Path: place.Path, Pattern: t.Annotations, Service: svc, Catalogs: t.Catalogs, Fields: fields,
			})
		}
	}
	return all, from.cut
}
