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
)

// unreadable are quantities that take all memory to read. An API server does not survive them either, so it never sends them.
var unreadable = regexp.MustCompile(`[eE][-+]?[0-9]{6}`)

// FuzzHandlers sends to every webhook what no API server sends: reviews of which the edits dropped, replaced and moved around
// parts, and the noise broke bytes. Nothing is ever our failure; a refusal says why; a patch can be applied, once. What the fuzzer
// changes is small, since it spends its time on making small again what was worth keeping.
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
		if unreadable.Match(body) {
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
			s.answers(t, review.Request, body)
			s.answersAnAPIServer(t, review.Request)
		}
	})
}

// post returns the response, or nil where the caller is to blame that there is none.
func (s *server) post(t *testing.T, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/?timeout=3s", bytes.NewReader(body))
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
	if err := kjson.UnmarshalCaseSensitivePreserveInts(w.Body.Bytes(), &answer); err != nil || answer.Response == nil || answer.Kind != "AdmissionReview" {
		t.Fatalf("%s: no AdmissionReview: %v\n%s", s.name, err, w.Body)
	}
	return answer.Response
}

// answers checks what holds of every answer.
func (s *server) answers(t *testing.T, req *admissionv1.AdmissionRequest, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	response := s.post(t, body)
	if response == nil {
		return nil
	}
	if response.UID != req.UID {
		t.Errorf("%s: answer to %q, not to %q", s.name, response.UID, req.UID)
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
	if status == nil || status.Code != http.StatusUnprocessableEntity || status.Message == "" || status.Details == nil || len(status.Details.Causes) == 0 {
		t.Fatalf("%s: refused with %+v\n%s", s.name, status, body)
	}
	for _, cause := range status.Details.Causes {
		if cause.Field == "" || cause.Message == "" {
			t.Errorf("%s: cause %+v\n%s", s.name, cause, body)
		}
	}
	if response.Patch != nil || response.AuditAnnotations["denied"] == "" {
		t.Errorf("%s: refused with patch %s, audit annotations %v", s.name, response.Patch, response.AuditAnnotations)
	}
	return response
}

// answersAnAPIServer checks what holds of objects as an API server writes them, which makes every object anew out of its fields.
func (s *server) answersAnAPIServer(t *testing.T, req *admissionv1.AdmissionRequest) {
	t.Helper()
	object, ok := s.rewrite(t, req.Object.Raw)
	if !ok {
		return
	}
	req.Object.Raw = object
	if old, ok := s.rewrite(t, req.OldObject.Raw); ok {
		req.OldObject.Raw = old
	}
	response := s.answers(t, req, encode(t, req))
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
		if again := s.answers(t, req, encode(t, req)); again == nil || !again.Allowed || again.Patch != nil {
			t.Fatalf("%s: answer to what was patched before: %+v\n%s", s.name, again, req.Object.Raw)
		}
	}
	req.Operation, req.OldObject = admissionv1.Update, req.Object
	if same := s.answers(t, req, encode(t, req)); same == nil || !same.Allowed || same.Patch != nil {
		t.Fatalf("%s: answer to an update that changes nothing: %+v\n%s", s.name, same, req.Object.Raw)
	}
}

// rewrite is the object as its type has it; ok is false if it cannot be read.
func (s *server) rewrite(t *testing.T, raw []byte) (object []byte, ok bool) {
	t.Helper()
	into := s.object()
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil || into.GetObjectKind().GroupVersionKind() != s.kind {
		return nil, false
	}
	object, err := json.Marshal(into)
	if err != nil {
		t.Skip(err)
	}
	return object, true
}

func encode(t testing.TB, req *admissionv1.AdmissionRequest) []byte {
	t.Helper()
	review := admissionv1.AdmissionReview{Request: req}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
