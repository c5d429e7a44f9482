package server_test

import (
	"strings"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

const holderOfC1 = "/v1/clusters/c1/holder"

func claim(fingerprints ...string) cloudv1.ClusterHolderSpec {
	return cloudv1.ClusterHolderSpec{Name: "prod", Fingerprints: fingerprints, ClaimedBy: "test"}
}

// TestHolder: fenced writes in the name of a cluster UID must name a fingerprint of its holder, whatever their epoch.
func TestHolder(t *testing.T) {
	c := newCloud(t)
	create := func(name, by string) answer {
		return c.send("POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: name}, cloudv1.HeaderFence, by)
	}
	c.send("GET", holderOfC1, nil).want(t, 404, "resource-not-found")
	create("a", "c1;epoch=3;holder=ca-1").want(t, 201, "")
	held := decode[cloudv1.ClusterHolder](t, c.send("PUT", holderOfC1, claim("ca-1")).want(t, 201, ""))
	if held.ID != "c1" || held.Name != "prod" || held.Since.IsZero() || held.Epoch != 3 {
		t.Errorf("the first holder is %+v", held)
	}

	refused := create("b", "c1;epoch=9;holder=ca-2").want(t, 412, "not-holder")
	for _, part := range []string{"cluster UID c1 is held by", `"prod"`, "ca-1", "ca-2"} {
		if !strings.Contains(refused.problem.Detail, part) {
			t.Errorf("%q does not contain %q", refused.problem.Detail, part)
		}
	}
	create("b", "c1;epoch=9").want(t, 412, "not-holder")
	create("b", "c1;epoch=3;holder=ca-1").want(t, 201, "") // epoch 9 does not count
	create("c", "c1;epoch=2;holder=ca-1").want(t, 412, "fenced")
	create("c", "c1;holder=ca-1").want(t, 201, "")
	create("d", "c2;epoch=1;holder=ca-2").want(t, 201, "")
	c.send("POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: "e"}).want(t, 201, "")
	c.send("POST", "/v1/node-groups?dry_run=true", cloudv1.NodeGroupSpec{Name: "f"},
		cloudv1.HeaderFence, "c1;epoch=3;holder=ca-2").want(t, 412, "not-holder")

	create("f", "c1;epoch=5;holder=ca-1").want(t, 201, "")
	held = decode[cloudv1.ClusterHolder](t, c.send("GET", holderOfC1, nil).want(t, 200, ""))
	if held.Epoch != 5 {
		t.Errorf("the record has epoch %d, want 5", held.Epoch)
	}
	c.stop()
	c = newCloud(t, withDir(c.dir))
	create("g", "c1;epoch=9;holder=ca-2").want(t, 412, "not-holder")
	for _, malformed := range []string{"c1;holder=", "c1;holder=a b", "c1;epoch=1;holder=;", "c1;epoch=1;owner=x", "c1;holder=" + strings.Repeat("x", 129)} {
		create("h", malformed).want(t, 400, "invalid")
	}
}

// TestHandOver: the record changes hands under a precondition, and each holder counts its leaders itself.
func TestHandOver(t *testing.T) {
	c := newCloud(t)
	fence := func(value string) []string { return []string{cloudv1.HeaderFence, value} }
	put := func(spec cloudv1.ClusterHolderSpec, headers ...string) answer {
		return c.send("PUT", holderOfC1, spec, headers...)
	}
	put(claim("ca-1"), "If-Match", "1").want(t, 404, "resource-not-found")
	first := decode[cloudv1.ClusterHolder](t, put(claim("ca-1")).want(t, 201, ""))
	put(claim("ca-2")).want(t, 412, "stale-revision")
	put(claim("ca-2"), "If-Match", "0").want(t, 412, "stale-revision")
	put(claim([]string{}...), "If-Match", first.Revision).want(t, 422, "invalid")
	put(claim("a b"), "If-Match", first.Revision).want(t, 422, "invalid")
	put(claim("ca-2"), append(fence("c1;epoch=1;holder=ca-2"), "If-Match", first.Revision)...).want(t, 412, "not-holder")

	// The holder itself may change its fingerprints, and stays the holder.
	c.send("POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: "a"}, fence("c1;epoch=7;holder=ca-1")...).want(t, 201, "")
	read := decode[cloudv1.ClusterHolder](t, c.send("GET", holderOfC1, nil).want(t, 200, ""))
	renewed := decode[cloudv1.ClusterHolder](t,
		put(claim("ca-1", "ca-1b"), append(fence("c1;epoch=7;holder=ca-1"), "If-Match", read.Revision)...).want(t, 200, ""))
	if renewed.Epoch != 7 || !renewed.Since.Equal(first.Since) {
		t.Errorf("renewed: %+v, before %+v", renewed, read)
	}
	moved := decode[cloudv1.ClusterHolder](t, put(claim("ca-2"), "If-Match", renewed.Revision).want(t, 200, ""))
	if moved.Epoch != 0 {
		t.Errorf("the new holder begins with epoch %d", moved.Epoch)
	}
	c.send("POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: "b"}, fence("c1;epoch=2;holder=ca-2")...).want(t, 201, "")
	c.send("POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: "c"}, fence("c1;epoch=8;holder=ca-1b")...).want(t, 412, "not-holder")

	c.send("DELETE", holderOfC1, nil).want(t, 428, "precondition-required")
	last := decode[cloudv1.ClusterHolder](t, c.send("GET", holderOfC1, nil).want(t, 200, ""))
	c.send("DELETE", holderOfC1, nil, "If-Match", last.Revision).want(t, 200, "")
	c.send("POST", "/v1/node-groups", cloudv1.NodeGroupSpec{Name: "c"}, fence("c1;epoch=8;holder=ca-1b")...).want(t, 201, "")
}
