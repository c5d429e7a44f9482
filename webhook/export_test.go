package webhook

import (
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Read reads a request as ServeHTTP does, and returns the status of the response if it cannot. Of an object with a value of
// the wrong type, nothing is known.
func (h *Handler) Read(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, int) {
	if failure := checkHead(r); failure != nil {
		return nil, failure.status
	}
	var held *share
	if isLarge(r) {
		held = h.o.Limit.newShare(w, r.Body)
		defer held.release()
	}
	req, _, failure := h.read(r.Context(), held, w, r)
	if failure != nil {
		return nil, failure.status
	}
	return &admissionv1.AdmissionRequest{
		UID: req.UID, Resource: req.Resource, SubResource: req.SubResource, Name: req.Name, Namespace: req.Namespace,
		Operation: req.Operation, UserInfo: authenticationv1.UserInfo{Username: req.UserInfo.Username}, DryRun: req.DryRun,
		Object: req.Object.extension(), OldObject: req.OldObject.extension(),
	}, http.StatusOK
}

func (s *slot) extension() runtime.RawExtension {
	switch {
	case s.mismatch != nil:
		return runtime.RawExtension{Object: &runtime.Unknown{}}
	case s.object != nil:
		return runtime.RawExtension{Object: s.object}
	}
	return runtime.RawExtension{}
}
