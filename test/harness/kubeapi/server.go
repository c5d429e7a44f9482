package kubeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/test/harness/pipe"
)

// Server is an API server in memory.
type Server struct {
	store    *store
	listener *pipe.Listener
}

// Start runs a Server until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{store: newStore(), listener: pipe.Listen()}
	server := &http.Server{Handler: s} //nolint:gosec // its only client is the test
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(s.listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return s
}

// Observe calls f with every change of an object, in order; nil stands for an object that does not exist. f must not
// call the server.
func (s *Server) Observe(f func(before, after runtime.Object)) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.observe = f
}

// Backup is what a Server had at some time.
type Backup struct{ objects map[string]object }

// Backup returns all objects as they are now.
func (s *Server) Backup() Backup { return Backup{s.store.backup()} }

// Restore returns to a backup, as a restore of etcd does that raises the revision: what has changed since is lost, and
// all watches have to begin again. The function that Observe has set is not called.
func (s *Server) Restore(b Backup) { s.store.restore(b.objects) }

// Config returns the configuration of a client. wrap, if not nil, wraps its transport.
func (s *Server) Config(wrap func(http.RoundTripper) http.RoundTripper) *rest.Config {
	var transport http.RoundTripper = s.listener.Transport()
	if wrap != nil {
		transport = wrap(transport)
	}
	return &rest.Config{
		Host: "http://kubernetes", Transport: transport, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON},
	}
}

// Client returns a client with full rights.
func (s *Server) Client(t testing.TB) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.Config(nil))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/apis" { // discovery shows no group, because the clients under test look only for kinds of others
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_ = json.NewEncoder(w).Encode(metav1.APIGroupList{})
		return
	}
	t, ok := parse(r.URL.Path)
	if !ok {
		fail(w, apierrors.NewGenericServerResponse(404, r.Method, schema.GroupResource{}, "", r.URL.Path, 0, true))
		return
	}
	if r.Method == http.MethodGet && r.URL.Query().Get("watch") != "" {
		s.watch(w, r, t)
		return
	}
	result, err := s.answer(r, t)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusCreated)
	}
	_ = json.NewEncoder(w).Encode(result)
}

// parse returns what a path names.
func parse(path string) (target, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var t target
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		t.gvr.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		t.gvr.Group, t.gvr.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return t, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		t.namespace, parts = parts[1], parts[2:]
	}
	t.gvr.Resource = parts[0]
	if len(parts) > 1 {
		t.name = parts[1]
	}
	if len(parts) > 2 {
		t.subresource = parts[2]
	}
	return t, true
}

func fail(w http.ResponseWriter, err error) {
	status := statusOf(err)
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

func statusOf(err error) metav1.Status {
	status := apierrors.NewInternalError(err).Status()
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	return status
}

// fromProtobuf returns an object that was sent in protobuf as JSON.
func fromProtobuf(body []byte) ([]byte, error) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

func (s *Server) answer(r *http.Request, t target) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if r.Header.Get("Content-Type") == runtime.ContentTypeProtobuf {
		if body, err = fromProtobuf(body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	dry := r.URL.Query().Get("dryRun") != ""
	switch {
	case dry:
		return nil, apierrors.NewBadRequest("dry runs are not supported")
	case r.Method == http.MethodGet && t.name == "":
		return s.list(r, t)
	case r.Method == http.MethodGet:
		return s.store.get(t)
	case r.Method == http.MethodPost:
		o, err := s.decode(t, body)
		if err != nil {
			return nil, err
		}
		return s.store.create(t, o)
	case r.Method == http.MethodPut:
		next, err := s.decode(t, body)
		if err != nil {
			return nil, err
		}
		return s.store.change(t, func(object) (object, error) { return next, nil })
	case r.Method == http.MethodPatch:
		return s.patch(r, t, body)
	case r.Method == http.MethodDelete:
		var o metav1.DeleteOptions
		if len(body) > 0 {
			if err := json.Unmarshal(body, &o); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		}
		return s.store.delete(t, o)
	}
	return nil, apierrors.NewMethodNotSupported(t.resource(), r.Method)
}

func (s *Server) decode(t target, body []byte) (object, error) {
	o, kind, err := s.store.empty(t)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	o.GetObjectKind().SetGroupVersionKind(kind)
	return o, nil
}

func (s *Server) patch(r *http.Request, t target, patch []byte) (any, error) {
	form := types.PatchType(r.Header.Get("Content-Type"))
	if form == types.ApplyPatchType {
		return s.apply(r, t, patch)
	}
	return s.store.change(t, func(live object) (object, error) {
		old, err := json.Marshal(live)
		if err != nil {
			return nil, fmt.Errorf("encode the object: %w", err)
		}
		var now []byte
		switch form {
		case types.JSONPatchType:
			operations, decodeErr := jsonpatch.DecodePatch(patch)
			if decodeErr != nil {
				return nil, apierrors.NewBadRequest(decodeErr.Error())
			}
			now, err = operations.Apply(old)
		case types.MergePatchType:
			now, err = jsonpatch.MergePatch(old, patch)
		case types.StrategicMergePatchType:
			now, err = strategicpatch.StrategicMergePatch(old, patch, live)
		default:
			return nil, apierrors.NewBadRequest("unknown kind of patch " + string(form))
		}
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", t.resource(), t.name, err.Error(), 0, true)
		}
		return s.decode(t, now)
	})
}

// apply is server-side apply. An object that does not exist is created.
func (s *Server) apply(r *http.Request, t target, configuration []byte) (any, error) {
	query := r.URL.Query()
	patch := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(configuration, &patch.Object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	_, kind, err := s.store.empty(t)
	if err != nil {
		return nil, err
	}
	fields, err := managedfields.NewDefaultFieldManager(s.store.fields, scheme.Scheme, scheme.Scheme, scheme.Scheme,
		kind, kind.GroupVersion(), t.subresource, nil)
	if err != nil {
		return nil, fmt.Errorf("manage fields: %w", err)
	}
	merged := func(live object) (object, error) {
		live.GetObjectKind().SetGroupVersionKind(kind)
		o, err := fields.Apply(live, patch, query.Get("fieldManager"), query.Get("force") == "true")
		if err != nil {
			return nil, err
		}
		next := o.(object)
		next.GetObjectKind().SetGroupVersionKind(kind)
		return next, nil
	}
	result, err := s.store.change(t, merged)
	if !apierrors.IsNotFound(err) || t.subresource != "" {
		return result, err
	}
	if patch.GetUID() != "" {
		return nil, apierrors.NewConflict(t.resource(), t.name, errors.New("there is no object with the UID"))
	}
	empty, _, err := s.store.empty(t)
	if err != nil {
		return nil, err
	}
	created, err := merged(empty)
	if err != nil {
		return nil, err
	}
	return s.store.create(t, created)
}

// selector returns the function that selects objects as the parameters of a list or watch ask for.
func selector(r *http.Request, t target) (func(object) bool, error) {
	query := r.URL.Query()
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if t.name != "" {
		byField = fields.AndSelectors(byField, fields.OneTermEqualSelector("metadata.name", t.name))
	}
	return func(o object) bool {
		if !byLabel.Matches(labels.Set(o.GetLabels())) {
			return false
		}
		if byField.Empty() {
			return true
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return false
		}
		return slices.IndexFunc(byField.Requirements(), func(q fields.Requirement) bool {
			value, _, _ := unstructured.NestedString(content, strings.Split(q.Field, ".")...)
			return (value == q.Value) != (q.Operator != "!=")
		}) < 0
	}, nil
}

func (s *Server) list(r *http.Request, t target) (any, error) {
	selected, err := selector(r, t)
	if err != nil {
		return nil, err
	}
	_, kind, err := s.store.empty(t)
	if err != nil {
		return nil, err
	}
	found, version := s.store.list(t)
	found = slices.DeleteFunc(found, func(o object) bool { return !selected(o) })
	slices.SortFunc(found, func(a, b object) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return map[string]any{
		"kind": kind.Kind + "List", "apiVersion": kind.GroupVersion().String(),
		"metadata": map[string]any{"resourceVersion": version}, "items": slices.Concat([]object{}, found),
	}, nil
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, t target) {
	selected, err := selector(r, t)
	if err != nil {
		fail(w, err)
		return
	}
	version, _ := strconv.ParseInt(r.URL.Query().Get("resourceVersion"), 10, 64)
	limit := time.Hour
	if seconds, err := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")); err == nil {
		limit = time.Duration(seconds) * time.Second
	}
	end := time.NewTimer(limit)
	defer end.Stop()
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	flush := http.NewResponseController(w).Flush
	if flush() != nil {
		return
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		if version, err = s.initial(w, t, selected); err != nil || flush() != nil {
			return
		}
	}
	for {
		events, changed, expired := s.store.since(version, t)
		if expired != nil {
			// The client notices by the end of the watch if it does not get this.
			_ = json.NewEncoder(w).Encode(map[string]any{"type": watch.Error, "object": statusOf(expired)})
			return
		}
		for _, e := range events {
			version = e.version
			if !selected(e.object) {
				if e.kind != watch.Modified {
					continue
				}
				// For a client that selects, an object that it no longer selects is gone.
				e.kind = watch.Deleted
			}
			if json.NewEncoder(w).Encode(map[string]any{"type": e.kind, "object": e.object}) != nil || flush() != nil {
				return
			}
		}
		select {
		case <-changed:
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// initial begins a watch with all objects and the bookmark that ends them, and returns the version that they had.
func (s *Server) initial(w http.ResponseWriter, t target, selected func(object) bool) (int64, error) {
	found, version := s.store.list(t)
	encoder := json.NewEncoder(w)
	for _, o := range found {
		if !selected(o) {
			continue
		}
		if err := encoder.Encode(map[string]any{"type": watch.Added, "object": o}); err != nil {
			return 0, fmt.Errorf("send an object: %w", err)
		}
	}
	end, kind, err := s.store.empty(t)
	if err != nil {
		return 0, err
	}
	end.GetObjectKind().SetGroupVersionKind(kind)
	end.SetResourceVersion(version)
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	if err := encoder.Encode(map[string]any{"type": watch.Bookmark, "object": end}); err != nil {
		return 0, fmt.Errorf("send the bookmark: %w", err)
	}
	return strconv.ParseInt(version, 10, 64)
}
