package operation

import (
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/failure"
)

// router leads requests to operations. It supports paths with a verb after an id, such as {id}:stop, which patterns of the
// standard mux do not.
type router struct{ mux *http.ServeMux }

func newRouter() router {
	r := router{http.NewServeMux()}
	r.mux.HandleFunc("/", r.unknownRequest)
	return r
}

// Handle adds an operation to the mux.
func (t router) Handle(op *huma.Operation, handler func(huma.Context)) {
	pattern := op.Method + " " + strings.Replace(op.Path, "}:", "}/:", 1)
	t.mux.HandleFunc(pattern, access.Authorize(op.OperationID, func(w http.ResponseWriter, r *http.Request) {
		handler(unhurried{humago.NewContext(op, r.WithContext(withNotes(r.Context())), w)})
	}))
}

// unhurried is a context whose body may take as long as the one who authenticated the request has decided.
type unhurried struct{ humaContext }

// humaContext has the methods of the library's context, one of which has the name that the field would have.
type humaContext = huma.Context

// SetReadDeadline implements huma.Context: the library would replace the deadline.
func (unhurried) SetReadDeadline(time.Time) error { return nil }

// ServeHTTP rewrites /v1/instances/i-1:stop to /v1/instances/i-1/:stop, for the mux.
func (t router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	escaped := r.URL.EscapedPath()
	if strings.Contains(escaped, "/:") || path.Clean(escaped) != escaped {
		noSuchPath(r).Write(w, r)
		return
	}
	parts := strings.Split(escaped, "/")
	if len(parts) != 4 || !strings.Contains(parts[3], ":") {
		t.mux.ServeHTTP(w, r)
		return
	}
	id, verb, _ := strings.Cut(parts[3], ":")
	u, err := r.URL.Parse(strings.Join(parts[:3], "/") + "/" + id + "/:" + verb)
	if err != nil {
		noSuchPath(r).Write(w, r)
		return
	}
	u.RawQuery = r.URL.RawQuery
	inner := *r
	inner.URL = u
	t.mux.ServeHTTP(w, &inner)
}

// unknownRequest responds to requests that match no operation. The response must not be mistaken for the absence of an
// object.
func (t router) unknownRequest(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := *r
		probe.Method = m
		if _, pattern := t.mux.Handler(&probe); pattern != "/" {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) == 0 {
		noSuchPath(r).Write(w, r)
		return
	}
	failure.New(http.StatusMethodNotAllowed, cloudv1.CodeUnsupported, "method %s is not supported; must be one of %s",
		r.Method, strings.Join(allowed, ", ")).With("Allow", strings.Join(allowed, ", ")).Write(w, r)
}

func noSuchPath(r *http.Request) *failure.Error {
	return failure.New(http.StatusNotFound, cloudv1.CodeUnsupported, "unknown path %q", r.URL.Path)
}
