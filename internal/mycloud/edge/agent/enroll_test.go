package agent_test

import (
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/edge/agent"
	"quaymaster.dev/test/harness/cloud"
)

// An edge registers with the token that all share, works with its own, and registers again if it was deleted.
func TestEnroll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stop()
	client := func(token string) *cloudapi.Client {
		c, err := cloudapi.New(cloudapi.Options{Endpoint: w.cloud.Endpoint, Token: cloudapi.StaticToken(token)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const token = "a-token-of-its-own-that-is-long"
	w.startAs(agent.Enroll(client(token), client(cloud.RegistrationToken)), cloudv1.EdgeSpec{Name: "edge-2", Token: token})
	w.create("web")
	w.until("announce 1")
	edge := func() *cloudv1.Edge {
		t.Helper()
		list, err := w.cloud.Client.ListEdges(t.Context(), cloudapi.ListOptions{Name: "edge-2"})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 0 {
			return &cloudv1.Edge{}
		}
		return &list.Items[0]
	}
	first := edge().ID
	if err := w.cloud.Client.DeleteEdge(t.Context(), first, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("it has registered again", func() bool { e := edge(); return e.ID != "" && e.ID != first && e.HeartbeatAt != nil })
	w.begin("second")
	w.until("announce 2")
}
