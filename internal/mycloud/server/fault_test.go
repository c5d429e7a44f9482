package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
)

// TestFaultEndpoint replaces the plan of faults through the endpoint of administrators.
func TestFaultEndpoint(t *testing.T) {
	c := newCloud(t, func(o *server.Options) { o.FaultEndpoint = true })
	admin := func(cl *cloud, method, body, with string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, cl.url+"/admin/faults", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+with)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(got)
	}
	expect := func(cl *cloud, method, body, with string, status int, part string) {
		t.Helper()
		if code, got := admin(cl, method, body, with); code != status || !strings.Contains(got, part) {
			t.Errorf("%s: %d %s", method, code, got)
		}
	}
	expect(c, "PUT", "rules: []", "wrong", 401, "unauthenticated")
	expect(c, "PUT", "rules: [{fault: boom}]", token, 422, "rules[0].fault")
	expect(c, "POST", "", token, 405, "must be")
	expect(c, "PUT", "rules: [{method: POST, route: /v1/node-groups, fault: status, status: 500, code: internal, commit: true}]",
		token, 200, `"fired":0`)

	// The client gets an error for a write that took effect; a repeated one with the same key gets its response.
	ctx := t.Context()
	spec, o := cloudv1.NodeGroupSpec{Name: "a"}, cloudapi.WriteOptions{IdempotencyKey: "k"}
	if _, err := c.client.CreateNodeGroup(ctx, spec, o); !cloudapi.HasCode(err, cloudv1.CodeInternal) {
		t.Errorf("the injected fault: %v", err)
	}
	all := must[*cloudv1.List[cloudv1.NodeGroup]](t)(c.client.ListNodeGroups(ctx, cloudapi.ListOptions{}))
	diff(t, "node groups", 1, len(all.Items))
	expect(c, "GET", "", token, 200, `"fired":1`)
	expect(c, "DELETE", "", token, 200, `"rules":[]`)
	again := must[*cloudv1.NodeGroup](t)(c.client.CreateNodeGroup(ctx, spec, o))
	diff(t, "the repeated write", all.Items[0].ID, again.ID)

	expect(newCloud(t), "GET", "", token, 404, "unsupported")
}
