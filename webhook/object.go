package webhook

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DecodePair decodes the objects of a request by the rules of the API server, and converts them to their Go type. The
// old one is nil on creation. Both are nil on deletion, which has only the old object, and that needs no validation. An
// error is a MalformedError: the caller sent something that the webhook is not registered for.
func DecodePair[Spec, Status, T any](
	req *admissionv1.AdmissionRequest, gvk schema.GroupVersionKind, convert func(*Object[Spec, Status]) *T,
) (oldObject, newObject *T, err error) {
	decode := func(name string, raw []byte) (*T, error) {
		object, err := decode[Spec, Status](name, raw, gvk)
		if err != nil {
			return nil, err
		}
		return convert(object), nil
	}
	switch req.Operation {
	case admissionv1.Create:
		newObject, err = decode("request.object", req.Object.Raw)
	case admissionv1.Update:
		if newObject, err = decode("request.object", req.Object.Raw); err == nil {
			oldObject, err = decode("request.oldObject", req.OldObject.Raw)
		}
	default:
	}
	return oldObject, newObject, err
}

func decode[Spec, Status any](name string, raw []byte, gvk schema.GroupVersionKind) (*Object[Spec, Status], error) {
	if len(raw) == 0 {
		return nil, &MalformedError{Problem: name + " is missing"}
	}
	object := &Object[Spec, Status]{}
	if err := unmarshal(raw, object); err != nil {
		return nil, &MalformedError{Problem: fmt.Sprintf("%s must be a %s: %v", name, gvk.Kind, err)}
	}
	if version, kind := gvk.ToAPIVersionAndKind(); object.APIVersion != version || object.Kind != kind {
		return nil, &MalformedError{Problem: fmt.Sprintf(
			"%s must have apiVersion %q and kind %q; got apiVersion %q and kind %q",
			name, version, kind, object.APIVersion, object.Kind)}
	}
	return object, nil
}

// ObjectName returns the name by which the user knows an object: one with generateName has no name yet.
func ObjectName(meta metav1.ObjectMeta) string {
	if meta.Name == "" {
		return meta.GenerateName
	}
	return meta.Name
}
