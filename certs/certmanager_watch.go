package certs

import (
	"context"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// watch calls changed when the object is deleted, when what it asks for has changed, and when it can no longer be read,
// until the context ends. cert-manager's own writes of the status are no change.
func (c *CertManagerClient) watch(ctx context.Context, w manifest, changed func()) {
	failed := func(error) { changed() }
	if w.kind == certmanagerv1.IssuerKind {
		watchNamed(ctx, lists[*certmanagerv1.IssuerList]{c, w.resource, func() *certmanagerv1.IssuerList {
			return &certmanagerv1.IssuerList{}
		}}, named[certmanagerv1.Issuer]{w.name, onChange(changed, func(o *certmanagerv1.Issuer) metav1.Object { return o }), failed})
		return
	}
	watchNamed(ctx, lists[*certmanagerv1.CertificateList]{c, w.resource, func() *certmanagerv1.CertificateList {
		return &certmanagerv1.CertificateList{}
	}}, named[certmanagerv1.Certificate]{w.name, onChange(changed, func(o *certmanagerv1.Certificate) metav1.Object { return o }), failed})
}

// onChange returns a function that is called with every state of an object, nil if it does not exist.
func onChange[T any](changed func(), about func(*T) metav1.Object) func(*T) {
	var generation int64
	return func(object *T) {
		before := generation
		if generation = 0; object != nil {
			generation = about(object).GetGeneration()
		}
		if object == nil || before != 0 && before != generation {
			changed()
		}
	}
}

// lists lists and watches the objects of a resource.
type lists[L runtime.Object] struct {
	client   *CertManagerClient
	resource string
	empty    func() L
}

// List implements watcher.
func (l lists[L]) List(ctx context.Context, o metav1.ListOptions) (L, error) {
	list := l.empty()
	return list, l.client.rest.Get().Namespace(l.client.namespace).Resource(l.resource).
		VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(list)
}

// Watch implements watcher.
func (l lists[L]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return l.client.rest.Get().Namespace(l.client.namespace).Resource(l.resource).
		VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
}
