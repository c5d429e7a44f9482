package server_test

import (
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

func TestFences(t *testing.T) {
	c := newCloud(t)
	fence := func(value string) []string { return []string{cloudv1.HeaderFence, value} }
	create := func(name, by string) answer {
		return c.send("POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: name}, fence(by)...)
	}
	group := decode[cloudv1.NodeGroup](t, create("a", "c1;epoch=3").want(t, 201, ""))
	create("b", "c1;epoch=2").want(t, 412, "fenced")
	create("b", "c1;epoch=3").want(t, 201, "")
	create("c", "c2; epoch=1").want(t, 201, "")
	c.send("POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: "d"}).want(t, 201, "")
	path := "/v1/node-groups/" + group.ID
	c.send("DELETE", path, nil, append(fence("c1;epoch=2"), "If-Match", group.Revision)...).want(t, 412, "fenced")

	// An epoch counts even if its first write fails, but not that of a dry run.
	c.send("DELETE", path, nil, append(fence("c1;epoch=4"), "If-Match", "0")...).want(t, 412, "stale-revision")
	create("e", "c1;epoch=3").want(t, 412, "fenced")
	c.send("POST", "/v1/node-groups?dry_run=true", cloudv1.NodeGroupSpec{Name: "f"}, fence("c1;epoch=9")...).want(t, 201, "")
	c.send("POST", "/v1/node-groups?dry_run=true", cloudv1.NodeGroupSpec{Name: "f"}, fence("c1;epoch=3")...).want(t, 412, "fenced")
	create("f", "c1;epoch=4").want(t, 201, "")

	// The response that is repeated for an idempotency key is fenced, too.
	key := append(fence("c1;epoch=4"), "Idempotency-Key", "k")
	c.send("POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: "g"}, key...).want(t, 201, "")
	create("h", "c1;epoch=5").want(t, 201, "")
	c.send("POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: "g"}, key...).want(t, 412, "fenced")

	c.stop()
	c = newCloud(t, withDir(c.dir))
	create("i", "c1;epoch=4").want(t, 412, "fenced")
	for _, malformed := range []string{"c1", ";epoch=1", "c1;epoch=", "c1;epoch=-1", "c1;epoch=x", "c1;term=1", "c1,epoch=1"} {
		create("j", malformed).want(t, 400, "invalid")
	}
}
