package ingressnode

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMark(t *testing.T) {
	for raw, tc := range map[string]struct {
		want mark
		err  string
	}{
		"true":        {want: mark{groups: []string{"default"}}},
		"false":       {want: mark{never: true}},
		"edge":        {want: mark{groups: []string{"edge"}}},
		"edge,inner":  {want: mark{groups: []string{"edge", "inner"}}},
		"default":     {want: mark{groups: []string{"default"}}},
		"":            {err: "DNS label"},
		"True":        {err: "DNS label"},
		"edge, inner": {err: "DNS label"},
		"edge,":       {err: "DNS label"},
		"edge,edge":   {err: `duplicate group "edge"`},
		"edge,true":   {err: "true must not be combined with other values"},
		"false,edge":  {err: "false must not be combined with other values"},
	} {
		t.Run(raw, func(t *testing.T) {
			got, err := parseMark(raw)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(mark{})); diff != "" {
				t.Errorf("unexpected mark (-want +got):\n%s", diff)
			}
		})
	}
}

// on returns a ready Node whose instance is i-<name>.
func on(name string, change ...func(*candidate)) candidate {
	c := candidate{name: name, ready: true, member: &Member{InstanceID: "i-" + name}}
	for _, f := range change {
		f(&c)
	}
	return c
}

func marked(groups ...string) func(*candidate) {
	return func(c *candidate) { c.mark.groups = groups }
}

func never(c *candidate)    { c.mark.never = true }
func excluded(c *candidate) { c.excluded = true }
func notReady(c *candidate) { c.ready = false }
func invalid(c *candidate)  { c.invalid = true }
func unknown(c *candidate)  { c.member = nil }

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes    []candidate
		current  string
		fallback string
		want     string
	}{
		"no Node marked, fallback all":  {nodes: []candidate{on("b"), on("a")}, want: "a b"},
		"no Node marked, fallback none": {nodes: []candidate{on("a"), on("b")}, fallback: "none", current: "a b", want: ""},
		"marked Nodes alone":            {nodes: []candidate{on("a"), on("b", marked("default")), on("c")}, current: "a b c", want: "b"},
		"marked for another group":      {nodes: []candidate{on("a"), on("b", marked("edge"))}, want: "a b"},
		"marked for several groups":     {nodes: []candidate{on("a"), on("b", marked("edge", "default"))}, want: "b"},
		"false never serves":            {nodes: []candidate{on("a"), on("b", never)}, current: "b", want: "a"},
		"false is all there is":         {nodes: []candidate{on("a", never)}, current: "a", want: ""},
		"excluded never serves":         {nodes: []candidate{on("a"), on("b", excluded)}, current: "a b", want: "a"},
		"a mark on an excluded Node does not end the fallback": {
			nodes: []candidate{on("a"), on("b", excluded, marked("default"))}, want: "a",
		},
		"NotReady leaves":                    {nodes: []candidate{on("a"), on("b", notReady)}, current: "a b", want: "a"},
		"NotReady stays where none is ready": {nodes: []candidate{on("a", notReady), on("b", notReady)}, current: "a", want: "a b"},
		"the only marked Node stays though NotReady": {
			nodes: []candidate{on("a"), on("b", marked("default"), notReady)}, current: "b", want: "b",
		},
		"a Node without instance is not yet a member": {nodes: []candidate{on("a"), on("b", unknown)}, want: "a"},
		"a marked Node without instance empties nothing": {
			nodes: []candidate{on("a"), on("b"), on("c", never), on("d", marked("default"), unknown)}, current: "a b c", want: "a b",
		},
		"Nodes that lost their instance empty nothing": {nodes: []candidate{on("a", unknown), on("b", unknown)}, current: "a b", want: "a b"},
		"invalid and serving stays with marked Nodes": {
			nodes: []candidate{on("a", invalid), on("b", marked("default")), on("c")}, current: "a c", want: "a b",
		},
		"invalid and not serving stays out": {nodes: []candidate{on("a", invalid), on("b")}, current: "b", want: "b"},
		"invalid and the only one that serves: it may be marked, so no Node joins": {
			nodes: []candidate{on("a", invalid), on("b")}, current: "a", want: "a",
		},
		"invalid and all serve: it may not be marked, so no Node leaves": {
			nodes: []candidate{on("a", invalid), on("b")}, current: "a b", want: "a b",
		},
		"invalid does not protect Nodes that must not serve": {
			nodes: []candidate{on("a", invalid), on("b", never), on("c", excluded)}, current: "a b c", want: "a",
		},
		"invalid and NotReady leaves while others are ready": {
			nodes: []candidate{on("a", invalid, notReady), on("b")}, current: "a b", want: "b",
		},
		"a Node that is gone leaves": {nodes: []candidate{on("a")}, current: "a b", want: "a"},
		"no Node at all":             {current: "a b", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			var current []Member
			for name := range strings.FieldsSeq(tc.current) {
				current = append(current, Member{InstanceID: "i-" + name})
			}
			var got []string
			for _, m := range decide("default", tc.nodes, current, tc.fallback != "none") {
				got = append(got, strings.TrimPrefix(m.InstanceID, "i-"))
			}
			if diff := cmp.Diff(strings.Fields(tc.want), append([]string{}, got...)); diff != "" {
				t.Errorf("unexpected members (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecideTakesOneNodeAnInstance(t *testing.T) {
	first, second := on("a"), on("b")
	first.member = &Member{InstanceID: "i-1", Zone: "first"}
	second.member = &Member{InstanceID: "i-1", Zone: "second"}
	want := []Member{{InstanceID: "i-1", Zone: "first"}}
	if diff := cmp.Diff(want, decide("default", []candidate{second, first}, nil, true)); diff != "" {
		t.Errorf("unexpected members (-want +got):\n%s", diff)
	}
}

func TestDifference(t *testing.T) {
	a, b := Member{InstanceID: "a", Addresses: []string{"10.0.0.1"}}, Member{InstanceID: "b", Zone: "eu-1b"}
	moved := Member{InstanceID: "a", Addresses: []string{"10.0.0.9"}}
	for name, tc := range map[string]struct {
		current, wanted []Member
		upsert          []Member
		remove          []string
	}{
		"equal in any order": {current: []Member{b, a}, wanted: []Member{a, b}},
		"join":               {current: []Member{a}, wanted: []Member{a, b}, upsert: []Member{b}},
		"leave":              {current: []Member{b, a}, wanted: nil, remove: []string{"a", "b"}},
		"another address":    {current: []Member{a, b}, wanted: []Member{moved, b}, upsert: []Member{moved}},
	} {
		t.Run(name, func(t *testing.T) {
			upsert, remove := difference(tc.current, tc.wanted)
			if diff := cmp.Diff(tc.upsert, upsert); diff != "" {
				t.Errorf("unexpected upserts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.remove, remove); diff != "" {
				t.Errorf("unexpected removals (-want +got):\n%s", diff)
			}
		})
	}
}
