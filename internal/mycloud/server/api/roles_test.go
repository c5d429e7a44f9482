package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/handler"
	"quaymaster.dev/internal/mycloud/server/store"
)

// newTokens stores a token of each role and returns their secrets.
func newTokens(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	secrets := map[string]string{}
	err := s.Update(func(tx *store.Tx) error {
		for name, fields := range map[string]cloudv1.TokenFields{
			"read": {Role: "read"}, "write": {Role: "write"}, "admin": {Role: "admin"}, "registration": {Role: "edge"},
			"edge": {Role: "edge", Edge: "edge-1"},
		} {
			id := "tok-" + name
			secrets[name] = access.NewSecret(id)
			if err := access.Keep(tx, id, secrets[name]); err != nil {
				return err
			}
			o := cloudv1.Object{ID: id, Name: name}
			if _, err := store.Tokens.Put(tx, &cloudv1.Token{Object: o, TokenFields: fields}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return secrets
}

// rolesOf returns the roles that must be able to use an operation, by rules that do not name each operation.
func rolesOf(method, path, id string) []string {
	question := slices.Contains([]string{"validate-load-balancer", "lookup-instances"}, id)
	switch {
	case id == "get-key-pair", id == "heartbeat-edge":
		return []string{"edge"}
	case id == "register-edge":
		return []string{"edge", "registration"}
	case id == "get-meta":
		// Machines that are not edges yet make sure that it is the right cloud.
		return []string{"admin", "edge", "read", "registration", "write"}
	case strings.HasPrefix(path, "/v1/tokens"), strings.HasPrefix(path, "/v1/edges") && method != http.MethodGet:
		return []string{"admin"}
	case method == http.MethodGet, question:
		return []string{"admin", "edge", "read", "write"}
	}
	return []string{"admin", "write"}
}

// TestRolesOfOperations sends every operation of the document with a token of every role: those that may not use it are
// refused in its name, others reach it. The document says the same.
func TestRolesOfOperations(t *testing.T) {
	a, s := newTestAPI(t)
	secrets := newTokens(t, s)
	operations := 0
	check := func(method, path, id string, documented []string) {
		operations++
		want := rolesOf(method, path, id)
		if d := cmp.Diff(want, documented); d != "" {
			t.Errorf("%s: roles (-want +documented):\n%s", id, d)
		}
		for _, role := range slices.Sorted(maps.Keys(secrets)) {
			target := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "x")
			w := send(t, a.Handler(), method, target, secrets[role])
			var p cloudv1.Problem
			_ = json.Unmarshal(w.Body.Bytes(), &p) // a success is not a problem
			refused := w.Code == http.StatusForbidden && strings.HasPrefix(p.Detail, id+" requires the ")
			if allowed := slices.Contains(want, role); refused == allowed || w.Code == http.StatusUnauthorized {
				t.Errorf("%s with role %s: %d %s", id, role, w.Code, w.Body)
			}
			w = send(t, a.Handler(), method, target, secrets[role]+"x")
			if w.Code != http.StatusUnauthorized {
				t.Errorf("%s with an invalid token: %d %s", id, w.Code, w.Body)
			}
		}
	}
	eachOperation(readDocument(t), func(method, path string, op object) {
		if path == handler.HealthPath || path == handler.ReadyPath {
			return
		}
		var documented []string
		each(op["security"], func(_ string, allowed object) { documented = slices.AppendSeq(documented, maps.Keys(allowed)) })
		slices.Sort(documented)
		check(method, path, op["operationId"].(string), documented)
	})
	if operations < 60 {
		t.Errorf("only %d operations", operations)
	}
	for role, secret := range secrets {
		w := send(t, a.Handler(), http.MethodGet, cloudv1.BackupPath, secret)
		if allowed := role == "admin"; (w.Code == http.StatusOK) != allowed {
			t.Errorf("backup with role %s: %d", role, w.Code)
		}
	}
}
