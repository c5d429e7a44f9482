package webhook

import (
	"regexp"

	admissionv1 "k8s.io/api/admission/v1"
)

// endlessNumbers matches values that resource.Quantity needs seconds to parse, such as 1e-30000000. The API server sends
// none: it writes quantities in their canonical form.
var endlessNumbers = regexp.MustCompile(`[":][ \t\r\n]*[+-]?(?:[0-9.]{100,}|[0-9.]+[eE][+-]?[0-9]{4,}[" \t\r\n,}])`)

// CheckQuantities returns a MalformedError if the objects of a request contain quantities that take long to parse.
// Requests for objects with quantities are checked before they are decoded.
func CheckQuantities(req *admissionv1.AdmissionRequest) error {
	if endlessNumbers.Match(req.Object.Raw) || endlessNumbers.Match(req.OldObject.Raw) {
		return &MalformedError{Problem: "the objects must have quantities of fewer than 100 digits and small exponents"}
	}
	return nil
}
