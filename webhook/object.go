package webhook

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quaymaster.dev/internal/jsonreader"
)

// ReadPair returns the objects of a request, which the Handler has read, or reads them from their JSON. The old one is
// nil on creation. Both are nil on deletion, which has only the old object, and that needs no validation. An error is a
// MalformedError: the caller sent something that the webhook is not registered for.
func ReadPair[O runtime.Object](
	req *admissionv1.AdmissionRequest, gvk schema.GroupVersionKind, read func(*jsonreader.Reader) O,
) (oldObject, newObject O, err error) {
	return pair(req, gvk, func(raw runtime.RawExtension) (O, metav1.TypeMeta, error) {
		o, wasRead := raw.Object.(O)
		var err error
		if !wasRead {
			err = jsonreader.Read(raw.Raw, func(r *jsonreader.Reader) { o = read(r) })
		}
		kind, _ := o.GetObjectKind().(*metav1.TypeMeta)
		return o, *kind, err
	})
}

// DecodePair is like ReadPair for objects without a function that reads them. It decodes them by the rules of the API
// server, and converts them to their Go type.
func DecodePair[Spec, Status, T any](
	req *admissionv1.AdmissionRequest, gvk schema.GroupVersionKind, convert func(*Object[Spec, Status]) *T,
) (oldObject, newObject *T, err error) {
	return pair(req, gvk, func(raw runtime.RawExtension) (*T, metav1.TypeMeta, error) {
		o := &Object[Spec, Status]{}
		err := unmarshal(raw.Raw, o)
		return convert(o), o.TypeMeta, err
	})
}

// pair decodes the objects that an operation has.
func pair[O any](
	req *admissionv1.AdmissionRequest, gvk schema.GroupVersionKind,
	decode func(runtime.RawExtension) (O, metav1.TypeMeta, error),
) (oldObject, newObject O, err error) {
	version, kind := gvk.ToAPIVersionAndKind()
	valid := func(name string, raw runtime.RawExtension) (O, error) {
		var none O
		if raw.Object == nil && len(raw.Raw) == 0 {
			return none, &MalformedError{Problem: name + " is missing"}
		}
		o, is, err := decode(raw)
		switch {
		case err != nil:
			return none, &MalformedError{Problem: fmt.Sprintf("%s must be a %s: %v", name, kind, err)}
		case is.APIVersion != version || is.Kind != kind:
			return none, &MalformedError{Problem: fmt.Sprintf(
				"%s must have apiVersion %q and kind %q; got apiVersion %q and kind %q",
				name, version, kind, is.APIVersion, is.Kind)}
		}
		return o, nil
	}
	switch req.Operation {
	case admissionv1.Create:
		newObject, err = valid("request.object", req.Object)
	case admissionv1.Update:
		if newObject, err = valid("request.object", req.Object); err == nil {
			oldObject, err = valid("request.oldObject", req.OldObject)
		}
	default:
	}
	return oldObject, newObject, err
}

// ObjectName returns the name by which the user knows an object: one with generateName has no name yet.
func ObjectName(meta metav1.ObjectMeta) string {
	if meta.Name == "" {
		return meta.GenerateName
	}
	return meta.Name
}
