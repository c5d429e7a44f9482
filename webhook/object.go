package webhook

import (
	"bytes"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quaymaster.dev/webhook/stream"
)

// Object is an object of a request.
type Object interface {
	runtime.Object
	metav1.Object
}

// ReadPair returns the objects of a request, which the Handler has read, or reads them from their JSON. The old one is
// nil on creation. Both are nil on deletion and for an object that is being deleted: they need no validation, because
// finalizers must be removable. An error is a MalformedError: the caller sent something that the webhook is not registered
// for.
func ReadPair[O Object](
	req *admissionv1.AdmissionRequest, gvk schema.GroupVersionKind, reader ObjectReader,
) (oldObject, newObject O, err error) {
	switch req.Operation {
	case admissionv1.Create:
		newObject, err = valid[O]("request.object", req.Object, gvk, reader)
	case admissionv1.Update:
		if newObject, err = valid[O]("request.object", req.Object, gvk, reader); err == nil {
			oldObject, err = valid[O]("request.oldObject", req.OldObject, gvk, reader)
		}
	default:
		return oldObject, newObject, nil
	}
	if err != nil || newObject.GetDeletionTimestamp() != nil {
		var none O
		return none, none, err
	}
	return oldObject, newObject, nil
}

// valid returns an object of the right kind.
func valid[O Object](
	name string, raw runtime.RawExtension, gvk schema.GroupVersionKind, reader ObjectReader,
) (o O, err error) {
	var none O
	switch object := raw.Object.(type) {
	case O:
		o = object
	case *malformed:
		err = object.problem
	default:
		if len(raw.Raw) == 0 {
			return none, &MalformedError{Problem: name + " is missing"}
		}
		into := reader.Decodable()
		err = stream.Read(stream.Input{Reader: bytes.NewReader(raw.Raw)}, into)
		o, _ = into.Object().(O)
	}
	version, kind := gvk.ToAPIVersionAndKind()
	if err != nil {
		return none, &MalformedError{Problem: fmt.Sprintf("%s must be a %s: %v", name, kind, err)}
	}
	is, _ := o.GetObjectKind().(*metav1.TypeMeta)
	if is.APIVersion != version || is.Kind != kind {
		return none, &MalformedError{Problem: fmt.Sprintf(
			"%s must have apiVersion %q and kind %q; got apiVersion %q and kind %q",
			name, version, kind, is.APIVersion, is.Kind)}
	}
	return o, nil
}
