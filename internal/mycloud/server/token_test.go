package server_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
)

// issue creates a token.
func (c *cloud) issue(name string, fields cloudv1.TokenFields) *cloudv1.NewToken {
	c.t.Helper()
	return must[*cloudv1.NewToken](c.t)(c.client.CreateToken(c.t.Context(),
		cloudv1.TokenSpec{Name: name, TokenFields: fields}, cloudapi.WriteOptions{}))
}

// reads reports whether a token is valid.
func (c *cloud) reads(secret string) bool {
	c.t.Helper()
	_, err := c.with(secret).Meta(c.t.Context())
	if err != nil && !cloudapi.HasCode(err, cloudv1.CodeUnauthenticated) {
		c.t.Fatal(err)
	}
	return err == nil
}

// TestTokens: a token is valid from its creation until it is deleted or expires, also over restarts, and only the one who
// creates it has its secret.
func TestTokens(t *testing.T) {
	clock := newFakeClock()
	c := newCloud(t, withClock(clock))
	ctx := t.Context()
	expires := clock.Now().Add(time.Hour)
	lasting, brief := c.issue("ci", cloudv1.TokenFields{Role: "write"}), c.issue("ci-2", cloudv1.TokenFields{Role: "read", ExpiresAt: &expires})
	if !strings.HasPrefix(lasting.Secret, lasting.ID+".") || len(lasting.Secret) < len(lasting.ID)+26 {
		t.Errorf("secret %q", lasting.Secret)
	}
	diff(t, "valid", []bool{true, true, false, false, false}, []bool{
		c.reads(lasting.Secret), c.reads(brief.Secret), c.reads(lasting.ID + "."), c.reads(lasting.ID),
		c.reads(lasting.ID + strings.TrimPrefix(brief.Secret, brief.ID)),
	})
	for _, path := range []string{"/v1/tokens", "/v1/tokens/" + lasting.ID} {
		if got := c.send(http.MethodGet, path, nil).want(t, 200, ""); bytes.Contains(got.body, []byte(lasting.Secret)) || bytes.Contains(got.body, []byte("hash")) {
			t.Errorf("%s shows a secret: %s", path, got.body)
		}
	}
	// A reader learns nothing of tokens, and a token is not given away twice.
	if _, err := c.with(brief.Secret).ListTokens(ctx, cloudapi.ListOptions{}); !cloudapi.HasCode(err, cloudv1.CodeForbidden) {
		t.Errorf("a reader lists tokens: %v", err)
	}
	for body, pointer := range map[string]string{
		`{"name":"ci","role":"read"}`:                                    "",
		`{"name":"x","role":"root"}`:                                     "/role",
		`{"name":"x","role":"read","edge":"edge-1"}`:                     "/edge",
		`{"name":"x","role":"read","expires_at":"2020-01-01T00:00:00Z"}`: "/expires_at",
		`{"name":"","role":"read"}`:                                      "/name",
		`{"name":"x"}`:                                                   "/role",
	} {
		got := c.send(http.MethodPost, "/v1/tokens", body)
		if pointer == "" {
			got.want(t, http.StatusConflict, cloudv1.CodeNameTaken)
			continue
		}
		diff(t, body, []string{pointer}, got.want(t, 422, cloudv1.CodeInvalid).pointers())
	}
	dry := decode[cloudv1.NewToken](t, c.send(http.MethodPost, "/v1/tokens?dry_run=true", `{"name":"dry","role":"admin"}`).want(t, 201, ""))
	diff(t, "dry run", "", dry.Secret+dry.ID)

	c.stop()
	for _, secret := range []string{lasting.Secret, strings.TrimPrefix(lasting.Secret, lasting.ID+".")} {
		if bytes.Contains(rawState(t, c.dir), []byte(secret)) {
			t.Error("the state has a secret")
		}
	}
	again := newCloud(t, withClock(clock), withDir(c.dir))
	diff(t, "valid after a restart", []bool{true, true}, []bool{again.reads(lasting.Secret), again.reads(brief.Secret)})
	clock.Step(time.Hour)
	diff(t, "valid after an hour", []bool{true, false}, []bool{again.reads(lasting.Secret), again.reads(brief.Secret)})
	if err := again.client.DeleteToken(ctx, lasting.ID, cloudapi.WriteOptions{}); err != nil {
		t.Error(err)
	}
	diff(t, "valid after it was deleted", false, again.reads(lasting.Secret))
}

// TestLastUse: the time of the last use is stored once an hour, however many requests there are.
func TestLastUse(t *testing.T) {
	clock := newFakeClock()
	c := newCloud(t, withClock(clock))
	token := c.issue("ci", cloudv1.TokenFields{Role: "read"})
	revision := must[*cloudv1.Meta](t)(c.client.Meta(t.Context())).Revision
	used := func() *time.Time {
		return must[*cloudv1.Token](t)(c.client.Token(t.Context(), token.ID)).LastUsedAt
	}
	if at := used(); at != nil {
		t.Errorf("used at %s before its use", at)
	}
	c.reads(token.Secret)
	first := clock.Now()
	eventually(t, "the use is stored", func() bool {
		clock.Step(time.Minute)
		return used() != nil
	})
	diff(t, "last use", first, *used())
	later := first
	eventually(t, "the use is stored again", func() bool {
		clock.Step(time.Minute)
		later = clock.Now()
		c.reads(token.Secret)
		return !used().Equal(first)
	})
	if after := used().Sub(first); after < time.Hour || used().After(later) {
		t.Errorf("stored again %s after the first time", after)
	}
	diff(t, "revision, which followers wait for", revision, must[*cloudv1.Meta](t)(c.client.Meta(t.Context())).Revision)
}

// TestEdgeTokens: machines become edges with a token of the API, of which one with a name is for that edge alone.
func TestEdgeTokens(t *testing.T) {
	c := newCloud(t, func(o *server.Options) { o.EdgeToken, o.EdgeTokens = "", nil })
	ctx := t.Context()
	offers := func() bool {
		return slices.Contains(must[*cloudv1.Meta](t)(c.client.Meta(ctx)).Capabilities, cloudv1.CapabilityEdges)
	}
	diff(t, "edges without a token for them", false, offers())
	shared := c.issue("edges", cloudv1.TokenFields{Role: "edge"})
	bound := c.issue("edge-1", cloudv1.TokenFields{Role: "edge", Edge: "edge-1"})
	diff(t, "edges with one", true, offers())
	register := func(secret, name string) error {
		_, err := c.with(secret).RegisterEdge(ctx, cloudv1.EdgeSpec{Name: name, Token: ownToken(name)}, cloudapi.WriteOptions{})
		return err
	}
	for name, err := range map[string]error{
		"the shared token under a name with a token of its own": register(shared.Secret, "edge-1"),
		"the token of another edge":                             register(bound.Secret, "edge-2"),
	} {
		if !cloudapi.HasCode(err, cloudv1.CodeForbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{"shared": register(shared.Secret, "edge-2"), "bound": register(bound.Secret, "edge-1")} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An edge keeps its own token when the one that it has registered with is gone.
	if err := c.client.DeleteToken(ctx, shared.ID, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := register(shared.Secret, "edge-3"); !cloudapi.HasCode(err, cloudv1.CodeUnauthenticated) {
		t.Errorf("a machine registers with a token that was deleted: %v", err)
	}
	diff(t, "the own token is valid", true, c.reads(ownToken("edge-2")))
}

// TestConnectionAfterRefusal: a connection is as good as another one after requests with a wrong token, so that a response is
// held as long as the client asks for.
func TestConnectionAfterRefusal(t *testing.T) {
	c := newCloud(t)
	since := must[*cloudv1.Meta](t)(c.client.Meta(t.Context())).Revision
	transport := &http.Transport{MaxConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	get := func(path, secret string) (status int, took time.Duration) {
		t.Helper()
		r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+path, http.NoBody))
		r.Header.Set("Authorization", "Bearer "+secret)
		start := time.Now()
		resp := must[*http.Response](t)(transport.RoundTrip(r))
		defer resp.Body.Close()
		_ = must[[]byte](t)(io.ReadAll(resp.Body))
		return resp.StatusCode, time.Since(start)
	}
	for range 100 {
		if status, _ := get("/v1/meta", "guess"); status != http.StatusUnauthorized {
			t.Errorf("wrong token: %d", status)
		}
	}
	if status, took := get("/v1/changes?wait=1&since="+since, token); status != http.StatusOK || took < time.Second {
		t.Errorf("held response after it: %d after %s", status, took)
	}
}

// TestHeldResponses: a caller that lets the server hold very many responses is refused more of them, and other callers are not.
func TestHeldResponses(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	since := must[*cloudv1.Meta](t)(c.client.Meta(t.Context())).Revision
	greedy := c.issue("greedy", cloudv1.TokenFields{Role: "read"}).Secret
	statuses := make(chan int)
	get := func(secret string) {
		status := 0
		defer func() { statuses <- status }()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/v1/changes?wait=60&since="+since, http.NoBody)
		if err != nil {
			return
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		if resp, err := http.DefaultClient.Do(r); err == nil {
			status = resp.StatusCode
			_ = resp.Body.Close()
		}
	}
	const most, beyond = 500, 20
	for range most + beyond {
		go get(greedy)
	}
	for range beyond {
		diff(t, "status of a response beyond the limit", http.StatusTooManyRequests, <-statuses)
	}
	go get(token)
	must[*cloudv1.NodeGroup](t)(c.client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "news"}, cloudapi.WriteOptions{}))
	for range most + 1 {
		diff(t, "status of a held response", http.StatusOK, <-statuses)
	}
	go get(greedy)
	diff(t, "status after they have ended", http.StatusOK, <-statuses)
}

// slowly sends a POST whose body arrives in two parts, with between in the middle, and returns the status.
func (c *cloud) slowly(path, secret, first, last string, between func()) int {
	c.t.Helper()
	body, rest := io.Pipe()
	req := must[*http.Request](c.t)(http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url+path, body))
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	status := make(chan int, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			status <- 0
			return
		}
		_ = resp.Body.Close()
		status <- resp.StatusCode
	}()
	if _, err := rest.Write([]byte(first)); err != nil {
		c.t.Fatal(err)
	}
	between()
	_, _ = rest.Write([]byte(last))
	_ = rest.Close()
	return <-status
}

// TestRevokedWhileWriting: a token that is revoked before the body of a request has arrived changes nothing.
func TestRevokedWhileWriting(t *testing.T) {
	c := newCloud(t)
	for path, last := range map[string]string{"/v1/tokens": `"role":"admin"}`, "/v1/node-groups": `"tags":{}}`} {
		thief := c.issue("thief", cloudv1.TokenFields{Role: "admin"})
		status := c.slowly(path, thief.Secret, `{"name":"mine",`, last, func() {
			// By then, the request is authenticated.
			time.Sleep(200 * time.Millisecond)
			if err := c.client.DeleteToken(t.Context(), thief.ID, cloudapi.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		})
		diff(t, "status of "+path, http.StatusUnauthorized, status)
	}
	left := must[*cloudv1.List[cloudv1.Token]](t)(c.client.ListTokens(t.Context(), cloudapi.ListOptions{}))
	diff(t, "tokens", 0, len(left.Items))
	groups := must[*cloudv1.List[cloudv1.NodeGroup]](t)(c.client.ListNodeGroups(t.Context(), cloudapi.ListOptions{}))
	diff(t, "node groups", 0, len(groups.Items))
}

// TestSlowBody: a body may take longer than the five seconds that the library would give it.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	status := c.slowly("/v1/node-groups", token, `{"name":`, `"slow"}`, func() { time.Sleep(5500 * time.Millisecond) })
	diff(t, "status", http.StatusCreated, status)
}

// TestHeldReadsEnd: a response that is held ends when the token is no longer valid, and has nothing of what happened then.
func TestHeldReadsEnd(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	// hold sends a request that the server holds, and returns how it ends.
	hold := func(secret string) <-chan error {
		since := must[*cloudv1.Meta](t)(c.client.Meta(ctx)).Revision
		client, done := c.with(secret), make(chan error, 1)
		go func() {
			_, err := client.Changes(ctx, since, []string{cloudv1.KindZone, cloudv1.KindLoadBalancer}, time.Minute)
			done <- err
		}()
		// By then, it is held.
		time.Sleep(200 * time.Millisecond)
		return done
	}
	ends := func(name string, held <-chan error) {
		t.Helper()
		select {
		case err := <-held:
			if !cloudapi.HasCode(err, cloudv1.CodeUnauthenticated) {
				t.Errorf("%s: %v, want %s", name, err, cloudv1.CodeUnauthenticated)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: the response is still held", name)
		}
	}
	revoked, lasting := c.issue("revoked", cloudv1.TokenFields{Role: "read"}), c.issue("lasting", cloudv1.TokenFields{Role: "read"})
	held, other := hold(revoked.Secret), hold(lasting.Secret)
	if err := c.client.DeleteToken(ctx, revoked.ID, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	ends("a token that was deleted", held)
	c.createLB(tree("one"))
	if err := <-other; err != nil {
		t.Errorf("another token: %v", err)
	}

	expires := time.Now().Add(time.Second)
	ends("a token that expires", hold(c.issue("brief", cloudv1.TokenFields{Role: "read", ExpiresAt: &expires}).Secret))

	edge := c.register("edge-1")
	held = hold(ownToken("edge-1"))
	if err := c.client.DeleteEdge(ctx, edge.ID, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	ends("the own token of an edge that was deleted", held)
}

// TestSecretsAreNotStored: nothing on the way stores a response.
func TestSecretsAreNotStored(t *testing.T) {
	c := newCloud(t)
	for path, body := range map[string]any{
		"/v1/tokens": `{"name":"ci","role":"read"}`, "/v1/tokens?dry_run=true": `{"name":"ci-2","role":"read"}`,
		"/v1/certificates": nil, "/v1/edges": nil,
	} {
		method := http.MethodGet
		if body != nil {
			method = http.MethodPost
		}
		got := c.send(method, path, body)
		diff(t, path, "no-store", got.header.Get("Cache-Control"))
	}
}
