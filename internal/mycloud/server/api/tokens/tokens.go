// Package tokens serves the permissions of callers: they are listed, created and revoked while the servers run.
package tokens

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/describe"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/read"
	"quaymaster.dev/internal/mycloud/server/api/write"
	"quaymaster.dev/internal/mycloud/server/store"
)

// tokensMax limits the number of tokens.
const tokensMax = 1000

// createTokenParams holds the parameters of create-token. An idempotency key would need the secret to be stored.
type createTokenParams struct {
	write.Params
	Body cloudv1.TokenSpec
}

// Resolve validates what the schema cannot express.
func (p *createTokenParams) Resolve(huma.Context) []error {
	problems := write.ValidateTags(p.Body.Tags)
	if p.Body.Edge != "" && p.Body.Role != cloudv1.RoleEdge {
		problems = append(problems, cloudv1.ProblemField{
			Pointer: "/edge", Detail: "must be empty unless the role is edge; remove it, or set the role to edge",
		})
	}
	return failure.Fields(problems)
}

// api serves the operations.
type api struct {
	write *write.Writer
	clock clock.PassiveClock
}

// Register adds the operations of tokens.
func Register(r *read.Reader, w *write.Writer, c clock.PassiveClock) {
	a := &api{write: w, clock: c}
	tokens := read.View[cloudv1.Token]{
		Kind: store.Tokens,
		Show: func(tx *store.Tx) func(*cloudv1.Token) error {
			return func(t *cloudv1.Token) error {
				t.LastUsedAt = access.LastUse(tx, t.ID)
				return nil
			}
		},
	}
	const tag, path = "tokens", "/v1/tokens"
	read.RegisterList(r, operation.New("list-tokens", tag, "Tokens without their secrets"), path, tokens)
	read.RegisterObject(r, operation.New("get-token", tag, "A token without its secret"), path+"/{id}", tokens)
	operation.Write(r.API, operation.New("create-token", tag, "Creates a token"),
		http.MethodPost, path, []int{http.StatusCreated}, a.createToken,
		describe.Means("The response is the only one with the secret: the cloud stores its hash. If it was lost, delete the token "+
			"and create another one."))
	operation.Write(r.API, operation.New("delete-token", tag, "Revokes a token"),
		http.MethodDelete, path+"/{id}", []int{http.StatusOK}, a.deleteToken,
		describe.Means("All servers reject the token as soon as this responds."))
}

func (a *api) createToken(ctx context.Context, p *createTokenParams) (*operation.Answer[cloudv1.NewToken], error) {
	if expires := p.Body.ExpiresAt; expires != nil && !a.clock.Now().Before(*expires) {
		return nil, failure.InvalidField("/expires_at", "must be in the future")
	}
	return write.Change(a.write, p.Params, func(tx *store.Tx) (*operation.Answer[cloudv1.NewToken], error) {
		if err := access.Valid(ctx, tx); err != nil {
			return nil, err
		}
		t := cloudv1.Token{Object: cloudv1.Object{Name: p.Body.Name, Tags: p.Body.Tags}, TokenFields: p.Body.TokenFields}
		if err := p.CheckTags(store.Tokens.Name, &t.Object); err != nil {
			return nil, err
		}
		if err := write.NameFree(tx, store.Tokens, t.Name); err != nil {
			return nil, err
		}
		if store.Tokens.Count(tx) >= tokensMax {
			return nil, failure.New(http.StatusForbidden, cloudv1.CodeQuotaExceeded,
				"the cloud has %d tokens, which is the maximum; delete those that are expired or unused", tokensMax)
		}
		answer, err := write.Create(tx, p.DryRun, "tok-", store.Tokens, &t)
		if err != nil {
			return nil, err
		}
		created := &operation.Answer[cloudv1.NewToken]{
			Status: answer.Status, ETag: answer.ETag, Body: cloudv1.NewToken{Token: answer.Body},
		}
		if p.DryRun {
			return created, nil
		}
		created.Body.Secret = access.NewSecret(t.ID)
		return created, access.Keep(tx, t.ID, created.Body.Secret)
	})
}

func (a *api) deleteToken(ctx context.Context, p *write.ObjectParams) (*operation.Answer[cloudv1.Token], error) {
	return write.Change(a.write, p.Params, func(tx *store.Tx) (*operation.Answer[cloudv1.Token], error) {
		if err := access.Valid(ctx, tx); err != nil {
			return nil, err
		}
		t, err := write.Checked(tx, store.Tokens, *p)
		if err != nil {
			return nil, err
		}
		if err := access.Revoke(tx, t.ID); err != nil {
			return nil, err
		}
		return write.Done(http.StatusOK, store.Tokens, t), store.Tokens.Delete(tx, t.ID)
	})
}
