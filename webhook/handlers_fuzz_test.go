package webhook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/klog/v2"
	kjson "sigs.k8s.io/json"

	"quaymaster.dev/test/harness/admission"
)

// unparsable matches quantities whose parsing exhausts memory. An API server does not survive them either, so it never
// sends them.
var unparsable = regexp.MustCompile(`[eE][-+]?[0-9]{6}`)

// FuzzHandlers sends to every webhook what no API server sends: requests with parts dropped, replaced and moved by
// edits, and with bytes broken by noise. None may cause an internal failure; a denial has a reason; a patch applies,
// exactly once. The fuzzed inputs are small, because the fuzzer spends its time minimizing the inputs it keeps.
func FuzzHandlers(f *testing.F) {
	servers, seeds := newServers(f), reviews(f)
	for seed := range seeds {
		f.Add(byte(seed), []byte(nil), "", []byte(nil))
		for action := range byte(actions) {
			f.Add(byte(seed), []byte{action, 30, 3, action, 50, 70, action, 14, 11}, "text", []byte{1, 44, '"', 2, 99, 0})
		}
	}
	f.Fuzz(func(t *testing.T, seed byte, edits []byte, text string, noise []byte) {
		body := disturb(edit(seeds[int(seed)%len(seeds)], edits, text), noise)
		if unparsable.Match(body) {
			t.Skip()
		}
		var review admissionv1.AdmissionReview
		if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil || review.Request == nil {
			servers[0].post(t, body)
			return
		}
		for _, s := range servers {
			if s.resource != review.Request.Resource {
				continue
			}
			s.check(t, review.Request, body)
			s.checkAsFromAPIServer(t, review.Request)
		}
	})
}

// post returns the response, or nil if the request was rejected as the caller's mistake.
func (s *server) post(t *testing.T, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	// The largest requests take long with the race detector on a busy machine.
	r := httptest.NewRequest(http.MethodPost, "/?timeout=60s", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r.WithContext(klog.NewContext(r.Context(), logr.Discard())))
	switch {
	case w.Code == http.StatusOK:
	case w.Code >= 400 && w.Code < 500 && w.Code != http.StatusTooManyRequests:
		return nil
	default:
		t.Fatalf("%s: status %d: %s\n%s", s.name, w.Code, w.Body, body)
	}
	var answer admissionv1.AdmissionReview
	if err := kjson.UnmarshalCaseSensitivePreserveInts(w.Body.Bytes(), &answer); err != nil || answer.Response == nil ||
		answer.Kind != "AdmissionReview" {
		t.Fatalf("%s: no AdmissionReview: %v\n%s", s.name, err, w.Body)
	}
	return answer.Response
}

// check checks what must hold for every response.
func (s *server) check(t *testing.T, req *admissionv1.AdmissionRequest, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	response := s.post(t, body)
	if response == nil {
		return nil
	}
	if response.UID != req.UID {
		t.Errorf("%s: response has uid %q, want %q", s.name, response.UID, req.UID)
	}
	size := 0
	for _, warning := range response.Warnings {
		size += len(warning)
	}
	if size > 4200 {
		t.Errorf("%s: %d bytes of warnings", s.name, size)
	}
	if response.Allowed {
		return response
	}
	status := response.Result
	if status == nil || status.Code != http.StatusUnprocessableEntity || status.Message == "" || status.Details == nil ||
		len(status.Details.Causes) == 0 {
		t.Fatalf("%s: denied with %+v\n%s", s.name, status, body)
	}
	for _, cause := range status.Details.Causes {
		if cause.Field == "" || cause.Message == "" {
			t.Errorf("%s: cause %+v\n%s", s.name, cause, body)
		}
	}
	if response.Patch != nil || response.AuditAnnotations["denied"] == "" {
		t.Errorf("%s: denied with patch %s, audit annotations %v", s.name, response.Patch, response.AuditAnnotations)
	}
	return response
}

// checkAsFromAPIServer checks what must hold for objects as an API server writes them: encoded again from their fields.
func (s *server) checkAsFromAPIServer(t *testing.T, req *admissionv1.AdmissionRequest) {
	t.Helper()
	object, ok := s.rewrite(t, req.Object.Raw)
	if !ok {
		return
	}
	req.Object.Raw = object
	if old, ok := s.rewrite(t, req.OldObject.Raw); ok {
		req.OldObject.Raw = old
	}
	response := s.check(t, req, admission.Encode(t, req))
	if response == nil {
		return
	}
	if response.Patch != nil {
		patch, err := jsonpatch.DecodePatch(response.Patch)
		if err != nil {
			t.Fatalf("%s: %v: %s", s.name, err, response.Patch)
		}
		if req.Object.Raw, err = patch.Apply(object); err != nil {
			t.Fatalf("%s: %v: %s\n%s", s.name, err, response.Patch, object)
		}
		if again := s.check(t, req, admission.Encode(t, req)); again == nil || !again.Allowed || again.Patch != nil {
			t.Fatalf("%s: response to an object that is already patched: %+v\n%s", s.name, again, req.Object.Raw)
		}
	}
	req.Operation, req.OldObject = admissionv1.Update, req.Object
	if same := s.check(t, req, admission.Encode(t, req)); same == nil || !same.Allowed || same.Patch != nil {
		t.Fatalf("%s: response to an update without changes: %+v\n%s", s.name, same, req.Object.Raw)
	}
}

// rewrite decodes and encodes an object with its Go type; ok is false if it cannot be decoded.
func (s *server) rewrite(t *testing.T, raw []byte) (object []byte, ok bool) {
	t.Helper()
	into := s.object()
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil ||
		into.GetObjectKind().GroupVersionKind() != s.kind {
		return nil, false
	}
	object, err := json.Marshal(into)
	if err != nil {
		t.Skip(err)
	}
	return object, true
}
