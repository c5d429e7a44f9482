package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/store"
)

// The names of callers with tokens of the server's flags.
const (
	clientName = "--token-file"
	edgeName   = "--edge-token-file"
)

// Tokens are the valid tokens.
type Tokens struct {
	// Client is the token of the flags, which may do everything that clients do.
	Client string
	// Shared is the token of the edges without one of their own; if empty, there are none.
	Shared string
	// Edges are the tokens of single edges by name, besides those with which edges have registered.
	Edges map[string]string
	// Store has the tokens of the API, and those of registered edges.
	Store store.Store
	// Stranger bounds what requests without a token cost; nil if this server alone has the state.
	Stranger *Stranger
	Clock    clock.Clock
	Logger   *slog.Logger

	uses uses
}

// bearer returns the token of a request.
func bearer(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}

func hasBearer(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// callerOf returns who sends a request. It has no role without a valid token.
func (t *Tokens) callerOf(r *http.Request) (Caller, error) {
	if !hasBearer(r) {
		return byCertificate(r.TLS, t.Clock.Now()), nil
	}
	return t.bearerOf(bearer(r))
}

// MayRead reports whether a token may read everything, and counts as its use if so.
func (t *Tokens) MayRead(token string) (bool, error) {
	who, err := t.bearerOf(token)
	may := permits("list-load-balancers", who.Role)
	if may && who.token != "" {
		t.uses.note(who.token, t.Clock.Now())
	}
	return may, err
}

// bearerOf returns the caller with a token. It has no role if the token is not valid.
func (t *Tokens) bearerOf(token string) (Caller, error) {
	same := func(secret string) bool {
		return secret != "" && subtle.ConstantTimeCompare([]byte(token), []byte(secret)) == 1
	}
	switch {
	case same(t.Client):
		return Caller{Role: Admin, Kind: ByFlag, Name: clientName}, nil
	case same(t.Shared):
		return Caller{Role: Registration, Kind: ByFlag, Name: edgeName}, nil
	}
	for name, secret := range t.Edges {
		if same(secret) {
			return Caller{Role: Edge, Edge: name, Kind: ByFlag, Name: edgeName}, nil
		}
	}
	var who Caller
	err := t.Store.View(func(tx *store.Tx) (err error) {
		if id, _, ok := strings.Cut(token, secretMark); ok {
			who, err = t.byToken(tx, id, token)
			return err
		}
		who, err = byOwnToken(tx, token)
		return err
	})
	return who, err
}

// byToken returns the caller with a token of the API.
func (t *Tokens) byToken(tx *store.Tx, id, secret string) (Caller, error) {
	hash := store.TokenHashes.Get(tx, id)
	if hash == "" || subtle.ConstantTimeCompare([]byte(hash), []byte(Hash(secret))) != 1 {
		return Caller{}, nil
	}
	found, err := store.Tokens.Get(tx, id)
	if err != nil || found.ExpiresAt != nil && !t.Clock.Now().Before(*found.ExpiresAt) {
		return Caller{}, err
	}
	who := Caller{Role: Role(found.Role), Edge: found.Edge, Kind: ByToken, Name: found.Name, token: id}
	if found.ExpiresAt != nil {
		who.expires = found.ExpiresAt.UTC()
	}
	if who.Role == Edge && who.Edge == "" {
		who.Role = Registration
	}
	return who, nil
}

// byOwnToken returns the edge that has registered with a token of its own.
func byOwnToken(tx *store.Tx, token string) (Caller, error) {
	hash := Hash(token)
	id := store.EdgeTokens.Get(tx, hash)
	if id == "" {
		return Caller{}, nil
	}
	e, err := store.Edges.Get(tx, id)
	if err != nil {
		return Caller{}, err
	}
	return Caller{Role: Edge, Edge: e.Name, Kind: ByOwnToken, Name: e.Name, hash: hash}, nil
}

// Bound reports whether there is a token that only the edge with a name may use, so that others cannot register it.
func (t *Tokens) Bound(tx *store.Tx, edge string) bool {
	_, bound := t.Edges[edge]
	return bound || len(store.Tokens.Find(tx, store.EdgeTerm(edge))) > 0
}

// AcceptEdges reports whether machines can become edges, or are.
func (t *Tokens) AcceptEdges(tx *store.Tx) bool {
	return t.Shared != "" || len(t.Edges) > 0 || len(store.Tokens.Find(tx, store.RoleTerm(cloudv1.RoleEdge))) > 0 ||
		store.Edges.Count(tx) > 0
}

// secretMark separates the id of a token from what is random. The own tokens of edges do not have it.
const secretMark = "."

// NewSecret returns the secret of a token with an id.
func NewSecret(id string) string { return id + secretMark + rand.Text() }

// Keep stores the hash of a token's secret: the secret has 128 random bits, so that its hash does not lead to it.
func Keep(tx *store.Tx, id, secret string) error { return store.TokenHashes.Set(tx, id, Hash(secret)) }

// Revoke deletes what is stored of the secret of a token, and of its use.
func Revoke(tx *store.Tx, id string) error {
	return errors.Join(store.TokenHashes.Delete(tx, id), store.TokenUses.Delete(tx, id))
}

// Hash returns what is stored of a token.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
