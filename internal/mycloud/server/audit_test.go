package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/api/audit"
)

// TestAuditLog: every write has an entry with its sender and its result, refused ones and dry runs included; reads,
// questions and heartbeats have none, and secrets and bodies are in none.
func TestAuditLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	log := must[*audit.Log](t)(audit.Open(audit.Options{
		File: file, MaxMegabytes: 1, MaxBackups: 1, Logger: slog.New(slog.DiscardHandler),
	}))
	c := newCloud(t, func(o *server.Options) { o.Audit = log })
	ctx := t.Context()
	reader, writer := c.issue("reader", cloudv1.TokenFields{Role: "read"}), c.issue("writer", cloudv1.TokenFields{Role: "write"})
	asWriter := c.with(writer.Secret)
	secretName := "name-that-must-not-be-logged"
	group := must[*cloudv1.NodeGroup](t)(asWriter.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: secretName}, cloudapi.WriteOptions{}))
	must[*cloudv1.NodeGroup](t)(asWriter.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: "dry"}, cloudapi.WriteOptions{DryRun: true}))
	if err := c.with(reader.Secret).DeleteNodeGroup(ctx, group.ID, cloudapi.WriteOptions{IfMatch: group.Revision}); err == nil {
		t.Error("a reader deletes")
	}
	if err := asWriter.DeleteNodeGroup(ctx, group.ID, cloudapi.WriteOptions{IfMatch: "1"}); err == nil {
		t.Error("a write with another revision succeeds")
	}
	must[*cloudv1.RoutesBatchResult](t)(asWriter.BatchRoutes(ctx, "rt-main", cloudv1.RoutesBatch{
		Upsert: []cloudv1.RouteSpec{{Destination: "10.244.1.0/24", NextHop: cloudv1.NextHop{InstanceID: "i-node-1"}}},
	}, cloudapi.WriteOptions{}))
	batched := must[*cloudv1.Meta](t)(c.client.Meta(ctx)).Revision
	edge := c.register("edge-1")
	// None of these is a write.
	c.beat(edge.ID, cloudv1.Heartbeat{})
	must[*cloudv1.LookupResult](t)(asWriter.LookupInstances(ctx, cloudv1.LookupRequest{IDs: []string{"i-node-1"}}))
	must[*cloudv1.List[cloudv1.NodeGroup]](t)(asWriter.ListNodeGroups(ctx, cloudapi.ListOptions{}))
	c.send(http.MethodDelete, "/v1/node-groups/"+group.ID, nil, "Authorization", "Bearer guess").want(t, 401, cloudv1.CodeUnauthenticated)

	raw := must[[]byte](t)(os.ReadFile(file))
	for _, secret := range []string{token, edgeToken, reader.Secret, writer.Secret, secretName, ownToken("edge-1")} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("the log has %q", secret)
		}
	}
	var got []audit.Entry
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		var e audit.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.RequestID == "" || e.From != "127.0.0.1" || time.Since(e.Time) > time.Minute {
			t.Errorf("entry %s", lines.Bytes())
		}
		got = append(got, e)
	}
	admin := audit.Actor{Kind: "flag", Name: "--token-file", Role: "admin"}
	asWrite := audit.Actor{Kind: "token", Name: "writer", Role: "write"}
	one := "/v1/node-groups/" + group.ID
	want := []audit.Entry{
		{Actor: admin, Method: "POST", Path: "/v1/tokens", Resource: reader.ID, Revision: reader.Revision, Status: 201},
		{Actor: admin, Method: "POST", Path: "/v1/tokens", Resource: writer.ID, Revision: writer.Revision, Status: 201},
		{Actor: asWrite, Method: "POST", Path: "/v1/node-groups", Resource: group.ID, Revision: group.Revision, Status: 201},
		{Actor: asWrite, Method: "POST", Path: "/v1/node-groups", DryRun: true, Status: 201},
		{Actor: audit.Actor{Kind: "token", Name: "reader", Role: "read"}, Method: "DELETE", Path: one, Status: 403},
		{Actor: asWrite, Method: "DELETE", Path: one, Status: 412},
		{Actor: asWrite, Method: "POST", Path: "/v1/route-tables/rt-main/routes:batch", Revision: batched, Status: 200},
		{
			Actor: audit.Actor{Kind: "flag", Name: "--edge-token-file", Role: "registration"}, Method: "POST", Path: "/v1/edges",
			Resource: edge.ID, Revision: edge.Revision, Status: 201,
		},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(audit.Entry{}, "Time", "From", "RequestID")); d != "" {
		t.Errorf("entries (-want +got):\n%s", d)
	}
}

// TestAuditOfDryRuns: an entry says that a request changed nothing if and only if that is so, however it was asked for.
func TestAuditOfDryRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	log := must[*audit.Log](t)(audit.Open(audit.Options{
		File: file, MaxMegabytes: 1, MaxBackups: 1, Logger: slog.New(slog.DiscardHandler),
	}))
	c := newCloud(t, func(o *server.Options) { o.Audit = log })
	queries := []string{"?dry_run=%zz&dry_run=true", "?dry_run=true", "?dry_run=1", "?dry_run", "?dry_run=TRUE", ""}
	for i, query := range queries {
		c.send(http.MethodPost, "/v1/node-groups"+query, fmt.Sprintf(`{"name":"group-%d"}`, i)).want(t, 201, "")
	}
	exists := map[string]bool{}
	for _, g := range must[*cloudv1.List[cloudv1.NodeGroup]](t)(c.client.ListNodeGroups(t.Context(), cloudapi.ListOptions{})).Items {
		exists[g.Name] = true
	}
	lines := bytes.Split(bytes.TrimSpace(must[[]byte](t)(os.ReadFile(file))), []byte("\n"))
	if len(lines) != len(queries) {
		t.Fatalf("%d entries, want %d", len(lines), len(queries))
	}
	for i, line := range lines {
		var e audit.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.DryRun == exists[fmt.Sprintf("group-%d", i)] {
			t.Errorf("%q: logged as a dry run %t, but the group exists: %t", queries[i], e.DryRun, !e.DryRun)
		}
	}
}

// TestAuditOfBackups: who reads a backup has an entry, whether the permission is there or not.
func TestAuditOfBackups(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	log := must[*audit.Log](t)(audit.Open(audit.Options{
		File: file, MaxMegabytes: 1, MaxBackups: 1, Logger: slog.New(slog.DiscardHandler),
	}))
	c := newCloud(t, func(o *server.Options) { o.Audit = log })
	for secret, want := range map[string]int{token: http.StatusOK, c.issue("ci", cloudv1.TokenFields{Role: "write"}).Secret: http.StatusForbidden} {
		// The operation is not in the document.
		r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+cloudv1.BackupPath, http.NoBody))
		r.Header.Set("Authorization", "Bearer "+secret)
		resp := must[*http.Response](t)(http.DefaultClient.Do(r))
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		diff(t, "status", want, resp.StatusCode)
		diff(t, "Cache-Control", "no-store", resp.Header.Get("Cache-Control"))
		entry := fmt.Sprintf(`"method":"GET","path":%q`, cloudv1.BackupPath)
		eventually(t, "there is an entry", func() bool {
			raw := must[[]byte](t)(os.ReadFile(file))
			return bytes.Contains(raw, []byte(entry)) && bytes.Contains(raw, fmt.Appendf(nil, `"status":%d}`, want))
		})
	}
}
