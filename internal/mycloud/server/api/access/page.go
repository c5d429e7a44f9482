package access

import (
	"context"
	"net/http"
)

// MayRead reports whether a token is that of a client, which may read everything.
func (t *Tokens) MayRead(ctx context.Context, token string) (bool, error) {
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}
	who, valid, err := t.CallerOf(r.WithContext(ctx))
	return valid && who.Role == Client, err
}
