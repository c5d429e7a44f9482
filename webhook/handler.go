package webhook

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	contentTypeJSON = "application/json"
	// defaultTimeout and longestTimeout are the API server's own.
	defaultTimeout = 10 * time.Second
	longestTimeout = 30 * time.Second
	// retryAfterSeconds is when an API server that was turned away may ask again: soon, because its own timeout goes on.
	retryAfterSeconds = 1
)

// HandlerOptions are what a Handler needs; all of them are required.
type HandlerOptions struct {
	// Name is the webhook in logs and metrics, such as validate-service.
	Name string
	// Resource is the only one served.
	Resource metav1.GroupVersionResource
	// Admitter judges the requests.
	Admitter Admitter
	// Limit turns calls away with 429.
	Limit *Limit
	// Metrics counts the calls.
	Metrics *Metrics
	// Clock measures the calls.
	Clock clock.PassiveClock
}

// Handler serves one webhook. The logger comes from the context of each call.
type Handler struct{ o HandlerOptions }

var _ http.Handler = (*Handler)(nil)

// NewHandler makes a handler of one webhook.
func NewHandler(o HandlerOptions) *Handler { return &Handler{o: o} }

// ServeHTTP answers one AdmissionReview.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := h.o.Clock.Now()
	logger := klog.FromContext(r.Context())
	answer, how, failure := h.guard(w, r)
	if failure != nil {
		h.logFailure(logger, failure)
		failure.write(w)
	} else {
		w.Header().Set("Content-Type", contentTypeJSON)
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		if _, err := w.Write(answer); err != nil {
			logger.V(1).Info("Caller left before the answer", "webhook", h.o.Name, "err", err)
		}
	}
	h.o.Metrics.observe(h.o.Name, how, h.o.Clock.Since(start))
}

// guard turns a panic into a failure of this one call.
func (h *Handler) guard(w http.ResponseWriter, r *http.Request) (answer []byte, how decision, failure *httpFailure) {
	defer func() {
		if p := recover(); p != nil {
			answer, how, failure = nil, decisionFailed, internalError(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	if refusal := checkHead(r); refusal != nil {
		return nil, decisionMalformed, refusal
	}
	timeout, err := timeoutOf(r.URL)
	if err != nil {
		return nil, decisionMalformed, badRequest(err)
	}
	size := r.ContentLength
	if size < 0 {
		size = maxBodyBytes
	}
	if !h.o.Limit.acquire(size) {
		return nil, decisionOverloaded, &httpFailure{
			status: http.StatusTooManyRequests, problem: "too many admission calls at the same time; try again", retry: true,
		}
	}
	defer h.o.Limit.release(size)
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	body, failure := readBody(ctx, w, r)
	if failure != nil {
		return nil, decisionMalformed, failure
	}
	return h.admit(ctx, body)
}

func (h *Handler) admit(ctx context.Context, body []byte) ([]byte, decision, *httpFailure) {
	req, err := decodeReview(body, h.o.Resource)
	if err != nil {
		return nil, decisionMalformed, badRequest(err)
	}
	response, err := h.o.Admitter.Admit(ctx, req)
	if err == nil && response == nil {
		err = errors.New("the admitter gave neither response nor error")
	}
	var malformed *MalformedError
	switch {
	case err == nil:
	case errors.As(err, &malformed):
		return nil, decisionMalformed, badRequest(err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, decisionTimeout, &httpFailure{status: http.StatusGatewayTimeout, problem: "no verdict within the webhook's timeout", cause: err}
	case ctx.Err() != nil:
		return nil, decisionTimeout, &httpFailure{status: http.StatusServiceUnavailable, problem: "the call was canceled", cause: err}
	default:
		return nil, decisionFailed, internalError(err)
	}
	response.UID = req.UID
	answer, err := encodeReview(response)
	if err != nil {
		return nil, decisionFailed, internalError(err)
	}
	how := decisionOf(response)
	h.logDecision(klog.FromContext(ctx), req, response, how)
	return answer, how, nil
}

func decisionOf(response *admissionv1.AdmissionResponse) decision {
	switch {
	case !response.Allowed:
		return decisionDenied
	case len(response.Patch) > 0:
		return decisionPatched
	}
	return decisionAllowed
}

func (h *Handler) logDecision(logger logr.Logger, req *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse, how decision) {
	level := 2
	if how == decisionDenied {
		level = 0
	}
	// Most calls are not logged; they should not pay for the values either.
	if logger = logger.V(level); !logger.Enabled() {
		return
	}
	dryRun := req.DryRun != nil && *req.DryRun
	logger.Info("Reviewed", "webhook", h.o.Name, "decision", string(how), "object", klog.KRef(req.Namespace, req.Name),
		"operation", string(req.Operation), "user", req.UserInfo.Username, "dryRun", dryRun, "audit", response.AuditAnnotations)
}

func (h *Handler) logFailure(logger logr.Logger, failure *httpFailure) {
	values := []any{"webhook", h.o.Name, "status", failure.status, "problem", failure.problem}
	switch {
	case failure.cause != nil:
		logger.Error(failure.cause, "Gave no verdict", values...)
	case failure.retry:
		// A line a call would make the overload worse; metrics count them.
		logger.V(1).Info("Turned a call away", values...)
	default:
		logger.Info("Gave no verdict", values...)
	}
}

// checkHead looks at what is known before the body is read.
func checkHead(r *http.Request) *httpFailure {
	if r.Method != http.MethodPost {
		return &httpFailure{status: http.StatusMethodNotAllowed, problem: "method must be POST", allow: http.MethodPost}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != contentTypeJSON {
		return &httpFailure{status: http.StatusUnsupportedMediaType, problem: "content type must be " + contentTypeJSON}
	}
	switch {
	case r.ContentLength == 0:
		return badRequest(errors.New("body must be an AdmissionReview in JSON: it is empty"))
	case r.ContentLength > maxBodyBytes:
		return tooLarge()
	}
	return nil
}

// timeoutOf is the time for an answer: a tenth less than the API server waits, so that the answer still finds it there.
func timeoutOf(u *url.URL) (time.Duration, error) {
	timeout := defaultTimeout
	if text := u.Query().Get("timeout"); text != "" {
		parsed, err := time.ParseDuration(text)
		if err != nil || parsed <= 0 {
			return 0, fmt.Errorf("query parameter timeout must be a positive duration such as 3s; got %q", text)
		}
		timeout = min(parsed, longestTimeout)
	}
	return timeout - timeout/10, nil
}
