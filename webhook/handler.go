package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/webhook/stream"
)

const (
	contentTypeJSON = "application/json"
	// defaultTimeout is that of the API server.
	defaultTimeout = 10 * time.Second
	// ordinaryAnswerBytes is less than what net/http buffers before it has to send the headers.
	ordinaryAnswerBytes = 2000
)

// jsonHeader is the Content-Type of answers. It is shared and must not be changed.
var jsonHeader = []string{contentTypeJSON}

// HandlerOptions holds the dependencies of a Handler; all fields but Subresource and Timeout are required.
type HandlerOptions struct {
	// Name identifies the webhook in logs and metrics, such as validate-service. It is served at / followed by its name.
	Name string
	// Admitter decides on the requests. No other resource than its own is served.
	Admitter Admitter
	// Subresource is a subresource that is also served; none if it is empty.
	Subresource string
	// Timeout is the longest time for a response, whatever the caller asks for; it defaults to 10 s.
	Timeout time.Duration
	// Limit bounds concurrent requests; those beyond it wait, at most until their deadline.
	Limit *Limit
	// Metrics counts and times the requests.
	Metrics *Metrics
	// Clock times the requests.
	Clock clock.PassiveClock
}

// Handler serves one webhook. It takes the logger from the context of each request; that must be a bounded one, because
// callers cause its lines.
type Handler struct{ o HandlerOptions }

var _ http.Handler = (*Handler)(nil)

// NewHandler returns a handler for one webhook.
func NewHandler(o HandlerOptions) *Handler {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	return &Handler{o: o}
}

// ServeHTTP responds to one AdmissionReview.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := h.o.Clock.Now()
	answer, d, failure := h.guard(w, r)
	if failure != nil {
		d = cmp.Or(failure.decision, decisionMalformed)
		h.logFailure(klog.FromContext(r.Context()), failure)
		if r.ContentLength != 0 {
			// The server would otherwise wait for the rest of the body before it responds.
			w.Header().Set("Connection", "close")
		}
		failure.write(w)
	} else {
		// The server sets the length of ordinary answers itself.
		w.Header()["Content-Type"] = jsonHeader
		if len(answer) > ordinaryAnswerBytes {
			w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		}
		if _, err := w.Write(answer); err != nil {
			klog.FromContext(r.Context()).V(1).Info("Client disconnected before the response was written",
				"webhook", h.o.Name, "err", err)
		}
	}
	h.o.Metrics.observe(h.o.Name, d, h.o.Clock.Since(start))
}

// guard turns a panic into a failure of this request only. What the request holds is free again when it returns, so that
// a caller that reads slowly occupies its connection only.
func (h *Handler) guard(w http.ResponseWriter, r *http.Request) (answer []byte, d decision, failure *httpFailure) {
	defer func() {
		if p := recover(); p != nil {
			answer, failure = nil, internalError(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	if failure := checkHead(r); failure != nil {
		return nil, "", failure
	}
	timeout, err := timeoutOf(r.URL, h.o.Timeout)
	if err != nil {
		return nil, "", badRequest(err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if !acquire(ctx, h.o.Limit.requests) {
		return nil, "", overloaded()
	}
	defer h.o.Limit.requests.Release(1)
	var held *share
	if isLarge(r) {
		held = h.o.Limit.newShare(w, r.Body)
		defer held.release()
	}
	req, excess, failure := h.read(ctx, held, w, r)
	if failure != nil {
		return nil, "", failure
	}
	if excess != nil {
		return h.respond(ctx, req, h.refuse(req, excess), nil)
	}
	relevant, err := h.request(req)
	if err != nil {
		return nil, "", badRequest(err)
	}
	if relevant == nil {
		return h.respond(ctx, req, Allow(), nil)
	}
	response, err := h.o.Admitter.Admit(ctx, relevant)
	return h.respond(ctx, req, response, err)
}

// count counts a finding.
func (h *Handler) count(f finding.Finding) {
	h.o.Metrics.findings.WithLabelValues(h.o.Name, f.ID, string(f.Severity)).Inc()
}

// isLarge reports whether a request needs a share of the budget for its body.
func isLarge(r *http.Request) bool { return r.ContentLength < 0 || r.ContentLength > stream.ShortBytes }

// respond returns the answer to a request, for which the Admitter returned a response or an error.
func (h *Handler) respond(
	ctx context.Context, req *request, response *admissionv1.AdmissionResponse, err error,
) ([]byte, decision, *httpFailure) {
	switch {
	case err == nil && response == nil:
		return nil, "", internalError(errors.New("the Admitter returned neither a response nor an error"))
	case err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, "", &httpFailure{
			status: http.StatusGatewayTimeout, problem: "no decision within the webhook's timeout", cause: err,
			decision: decisionTimeout,
		}
	case ctx.Err() != nil:
		return nil, "", &httpFailure{
			status: http.StatusServiceUnavailable, problem: "request canceled by the caller", cause: err,
			decision: decisionTimeout,
		}
	default:
		return nil, "", internalError(err)
	}
	response.UID = req.UID
	answer, err := encodeReview(response)
	if err != nil {
		return nil, "", internalError(err)
	}
	d := decisionAllowed
	switch {
	case !response.Allowed:
		d = decisionDenied
	case len(response.Patch) > 0:
		d = decisionPatched
	}
	h.logDecision(klog.FromContext(ctx), req, response, d)
	return answer, d, nil
}

func (h *Handler) logDecision(
	logger logr.Logger, req *request, response *admissionv1.AdmissionResponse, d decision,
) {
	level := 2
	if d == decisionDenied {
		level = 0
	}
	// Most requests are not logged and should not pay for building the values.
	if logger = logger.V(level); !logger.Enabled() {
		return
	}
	logger.Info("Handled admission request", "webhook", h.o.Name, "decision", string(d),
		"object", klog.KRef(req.Namespace, req.Name), "operation", string(req.Operation), "user", req.UserInfo.Username,
		"dryRun", ptr.Deref(req.DryRun, false), "audit", response.AuditAnnotations)
}

func (h *Handler) logFailure(logger logr.Logger, failure *httpFailure) {
	values := []any{"webhook", h.o.Name, "status", failure.status, "problem", failure.problem}
	switch {
	case failure.cause != nil:
		logger.Error(failure.cause, "Failed to handle admission request", values...)
	case failure.decision == decisionOverloaded:
		// One line per request would make the overload worse; metrics count them.
		logger.V(1).Info("Rejected admission request because of overload", values...)
	default:
		logger.Info("Failed to handle admission request", values...)
	}
}

// checkHead validates method and headers, before the body is read.
func checkHead(r *http.Request) *httpFailure {
	if r.Method != http.MethodPost {
		return &httpFailure{status: http.StatusMethodNotAllowed, problem: "method must be POST"}
	}
	if !isJSON(r.Header) {
		return &httpFailure{status: http.StatusUnsupportedMediaType, problem: "content type must be " + contentTypeJSON}
	}
	switch {
	case r.ContentLength == 0:
		return badRequest(errors.New("body must be an AdmissionReview in JSON: body is empty"))
	case r.ContentLength > maxBodyBytes:
		return tooLarge()
	}
	return nil
}

func isJSON(header http.Header) bool {
	values := header["Content-Type"]
	if len(values) == 0 {
		return false
	}
	if values[0] == contentTypeJSON {
		// This is what API servers send.
		return true
	}
	kind, _, err := mime.ParseMediaType(values[0])
	return err == nil && kind == contentTypeJSON
}

// timeoutOf returns the time for a response: a tenth less than the API server waits, so that the response arrives in
// time. A caller cannot ask for more than the webhook configurations do.
func timeoutOf(u *url.URL, longest time.Duration) (time.Duration, error) {
	timeout := longest
	// This is what API servers send. Parsing the query in general costs more.
	text, simple := strings.CutPrefix(u.RawQuery, "timeout=")
	if !simple || strings.ContainsAny(text, "&%+;") {
		text = u.Query().Get("timeout")
	}
	if text != "" {
		parsed, err := time.ParseDuration(text)
		if err != nil || parsed <= 0 {
			return 0, fmt.Errorf("query parameter timeout must be a positive duration such as 3s; got %q", text)
		}
		timeout = min(parsed, longest)
	}
	return timeout - timeout/10, nil
}
