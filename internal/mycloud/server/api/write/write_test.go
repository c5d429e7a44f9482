package write

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/store"
)

// createParams holds the parameters of the operation under test.
type createParams struct {
	PostParams
	Body cloudv1.NodeGroupSpec
}

func TestIdempotencyKeyInFlight(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "state.db"), clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	logger := slog.New(slog.DiscardHandler)
	writer := New(s, nil)
	api := operation.NewAPI(s, logger, &huma.Info{}, nil, nil)
	operation.Write(api, operation.New("create-node-group", "", ""), http.MethodPost, "/v1/node-groups", []int{http.StatusCreated},
		func(_ context.Context, p *createParams) (*operation.Answer[cloudv1.NodeGroup], error) {
			return Post(writer, p.PostParams, "create", p.Body, func(tx *store.Tx) (*operation.Answer[cloudv1.NodeGroup], error) {
				return Create(tx, false, "ng-", store.NodeGroups, &cloudv1.NodeGroup{})
			})
		})
	tokens := &access.Tokens{Client: "t", Store: s, Clock: clock.RealClock{}, Logger: logger}
	send := func() *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/node-groups", strings.NewReader(`{"name":"a"}`))
		r.Header.Set("Authorization", "Bearer t")
		r.Header.Set("Content-Type", cloudv1.MediaTypeJSON)
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		tokens.Authenticate(api.Adapter()).ServeHTTP(w, r)
		return w
	}
	if !writer.inFlight.enter("k") {
		t.Fatal("the key is in use")
	}
	w := send()
	if w.Code != http.StatusConflict || w.Header().Get("Retry-After") == "" ||
		!strings.Contains(w.Body.String(), `"code":"conflict"`) {
		t.Errorf("in flight: %d %v %s", w.Code, w.Header(), w.Body)
	}
	writer.inFlight.leave("k")
	if w := send(); w.Code != http.StatusCreated {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}
