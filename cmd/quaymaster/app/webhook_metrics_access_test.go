package app

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// authority is an API server that knows the tokens of two users, of whom only prometheus may get /metrics.
func authority() *fake.Clientset {
	api := fake.NewClientset()
	api.PrependReactor("create", "tokenreviews",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
			switch token := review.Spec.Token; token {
			case "prometheus", "guest":
				review.Status.Authenticated = true
				review.Status.User = authenticationv1.UserInfo{Username: token, Groups: []string{"readers"}}
			case "down":
				return true, nil, errors.New("connection refused")
			}
			return true, review, nil
		})
	api.PrependReactor("create", "subjectaccessreviews",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
			what := review.Spec.NonResourceAttributes
			review.Status.Allowed = review.Spec.User == "prometheus" && what.Path == "/metrics" && what.Verb == "get"
			return true, review, nil
		})
	return api
}

func TestAccess(t *testing.T) {
	api, reached := authority(), 0
	a := newAccess(api, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	for name, test := range map[string]struct {
		header, path string
		// want is the status code, and reviews the number of calls of the API server for two requests.
		want, reviews int
	}{
		"allowed":             {"Bearer prometheus", "/metrics", http.StatusOK, 2},
		"allowed, other path": {"Bearer prometheus", "/debug/pprof/heap", http.StatusForbidden, 4},
		"not allowed":         {"Bearer guest", "/metrics", http.StatusForbidden, 4},
		"unknown token":       {"Bearer x", "/metrics", http.StatusUnauthorized, 2},
		"no token":            {"Bearer ", "/metrics", http.StatusUnauthorized, 0},
		"no header":           {"", "/metrics", http.StatusUnauthorized, 0},
		"password":            {"Basic prometheus", "/metrics", http.StatusUnauthorized, 0},
		"API server is down":  {"Bearer down", "/metrics", http.StatusServiceUnavailable, 2},
	} {
		t.Run(name, func(t *testing.T) {
			api.ClearActions()
			reached = 0
			for range 2 {
				request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, nil)
				request.RemoteAddr = name + ":1234"
				request.Header.Set("Authorization", test.header)
				response := httptest.NewRecorder()
				a.ServeHTTP(response, request)
				if response.Code != test.want {
					t.Errorf("status %d, want %d", response.Code, test.want)
				}
			}
			if got := len(api.Actions()); got != test.reviews {
				t.Errorf("%d calls of the API server, want %d", got, test.reviews)
			}
			if passed := reached == 2; passed != (test.want == http.StatusOK) {
				t.Errorf("the handler was called %d times", reached)
			}
		})
	}
}

// scrape returns the status code of a request with a token.
func scrape(t *testing.T, a *access, address, token string) int {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	request.RemoteAddr = address + ":1234"
	request.Header.Set("Authorization", "Bearer "+token)
	response := httptest.NewRecorder()
	a.ServeHTTP(response, request)
	return response.Code
}

// Callers cannot multiply calls of the API server by guessing tokens, from however many addresses.
func TestAccessHasABudget(t *testing.T) {
	api := authority()
	a := newAccess(api, http.NotFoundHandler())
	a.budget.SetLimit(0)
	for i := range 100 {
		scrape(t, a, fmt.Sprintf("10.0.0.%d", i), fmt.Sprintf("guess-%d", i))
	}
	if got := len(api.Actions()); got != accessAtOnce {
		t.Errorf("%d calls of the API server, want %d", got, accessAtOnce)
	}
}

// While an address guesses tokens, another one is answered, and so is a token from anywhere that was allowed before.
func TestGuessesDoNotStarveScrapes(t *testing.T) {
	a := newAccess(authority(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	guess := func() {
		for i := range 1000 {
			scrape(t, a, "10.0.0.1", fmt.Sprintf("guess-%d", i))
		}
	}
	guess()
	if code := scrape(t, a, "10.0.0.2", "prometheus"); code != http.StatusOK {
		t.Errorf("a first scrape got %d", code)
	}
	guess()
	// As if a minute had passed.
	a.allowed.RemoveAll(func(any) bool { return true })
	if code := scrape(t, a, "10.0.0.1", "prometheus"); code != http.StatusOK {
		t.Errorf("a later scrape got %d", code)
	}
}
