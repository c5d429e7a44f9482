package app

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/ratelimit"
)

const (
	// accessTTL is how long a client whose request was allowed is not checked again.
	accessTTL = time.Minute
	// accessTimeout limits the time that a request waits for the API server.
	accessTimeout = 5 * time.Second
	// accessClients is the number of clients that are remembered.
	accessClients = 64
	// accessMemory is how long a token that was allowed does not share the budget of others.
	accessMemory = 2 * time.Hour
	// accessPerSecond and accessAtOnce limit the reviews of tokens, which callers cause.
	accessPerSecond = 5
	accessAtOnce    = 20
	// addressEvery and addressAtOnce limit those that one address causes, so that it leaves some for others.
	addressEvery  = 2 * time.Second
	addressAtOnce = 5
	addresses     = 1024
)

// access restricts a handler to clients that the API server authenticates by their bearer token and allows to use the
// path. controller-runtime's filter does the same, but links in an API server with gRPC and CEL.
//
// Guessed tokens use up neither the reviews of those that were allowed lately nor, from other addresses, those of new
// ones.
type access struct {
	api  kubernetes.Interface
	next http.Handler
	// budget is for strangers, and reserved for tokens that are remembered.
	budget, reserved    *rate.Limiter
	allowed, remembered *cache.LRUExpireCache
	byAddress           *ratelimit.ByKey[string]
}

func newAccess(api kubernetes.Interface, next http.Handler) *access {
	return &access{
		api: api, next: next,
		budget: rate.NewLimiter(accessPerSecond, accessAtOnce), reserved: rate.NewLimiter(accessPerSecond, accessAtOnce),
		allowed: cache.NewLRUExpireCache(accessClients), remembered: cache.NewLRUExpireCache(accessClients),
		byAddress: ratelimit.New[string](addressEvery, addressAtOnce, addresses),
	}
}

// ServeHTTP answers with 401 or 403 as an API server does, and with 503 if it cannot ask one.
func (a *access) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	// Tokens are secret, so only their hash is kept.
	key := sha256.Sum256([]byte(token + "\n" + r.Method + "\n" + r.URL.Path))
	if _, ok := a.allowed.Get(key); !ok {
		code := http.StatusTooManyRequests
		if a.mayAsk(r, key) {
			code = a.check(r, token)
		}
		if code != http.StatusOK {
			http.Error(w, http.StatusText(code), code)
			return
		}
		a.allowed.Add(key, true, accessTTL)
		a.remembered.Add(key, true, accessMemory)
	}
	a.next.ServeHTTP(w, r)
}

// mayAsk reports whether the API server may be asked about a token.
func (a *access) mayAsk(r *http.Request, key any) bool {
	if _, ok := a.remembered.Get(key); ok {
		return a.reserved.Allow()
	}
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	return a.byAddress.Allow(address) && a.budget.Allow()
}

// check returns the status code of the answer to a client with this token.
func (a *access) check(r *http.Request, token string) int {
	ctx, cancel := context.WithTimeout(r.Context(), accessTimeout)
	defer cancel()
	authenticated, err := a.api.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		klog.FromContext(ctx).Error(err, "Cannot authenticate a client of the metrics")
		return http.StatusServiceUnavailable
	case !authenticated.Status.Authenticated:
		return http.StatusUnauthorized
	}
	user := authenticated.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := a.api.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{
				Path: r.URL.Path, Verb: strings.ToLower(r.Method),
			},
		},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		klog.FromContext(ctx).Error(err, "Cannot authorize a client of the metrics", "user", user.Username)
		return http.StatusServiceUnavailable
	case !review.Status.Allowed:
		return http.StatusForbidden
	}
	return http.StatusOK
}
