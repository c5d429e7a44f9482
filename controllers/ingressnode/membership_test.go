package ingressnode

import (
	"slices"
	"strconv"
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
	address := "10.0.0." + strconv.Itoa(int(name[0]))
	c := candidate{
		name: name, readiness: ready, instanceID: "i-" + name, addresses: []string{address},
		machine: &Machine{Addresses: []string{address}},
	}
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
func failed(c *candidate)   { c.readiness = notReady }
func silent(c *candidate)   { c.readiness = unreported }
func invalid(c *candidate)  { c.invalid = true }
func unknown(c *candidate)  { c.instanceID = "" }
func unseen(c *candidate)   { c.machine = nil }
func foreign(c *candidate)  { c.addresses = []string{"192.0.2.1"} }
func leaving(c *candidate)  { c.draining = true }
func left(c *candidate)     { c.draining, c.drained = true, true }

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
		"NotReady leaves":                    {nodes: []candidate{on("a"), on("b", failed)}, current: "a b", want: "a"},
		"NotReady stays where none is ready": {nodes: []candidate{on("a", failed), on("b", failed)}, current: "a", want: "a b"},
		"the only marked Node stays though NotReady": {
			nodes: []candidate{on("a"), on("b", marked("default"), failed)}, current: "b", want: "b",
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
			nodes: []candidate{on("a", invalid, failed), on("b")}, current: "a b", want: "b",
		},
		"a Node that is gone leaves":            {nodes: []candidate{on("a")}, current: "a b", want: "a"},
		"no Node at all":                        {current: "a b", want: ""},
		"no news of a Node that serves":         {nodes: []candidate{on("a"), on("b", silent)}, current: "a b", want: "a b"},
		"no news of a Node that does not serve": {nodes: []candidate{on("a"), on("b", silent)}, current: "a", want: "a"},
		"no news of any Node":                   {nodes: []candidate{on("a", silent), on("b", silent)}, current: "a b", want: "a b"},
		"no news of the ones, and another is NotReady": {
			nodes: []candidate{on("a", silent), on("b", failed)}, current: "a b", want: "a",
		},
		"no news of the only marked Node": {
			nodes: []candidate{on("a"), on("b", marked("default"), silent)}, current: "b", want: "b",
		},
		"a Node whose instance has not been read joins later": {nodes: []candidate{on("a"), on("b", unseen)}, current: "a", want: "a"},
		"a member whose instance cannot be read stays":        {nodes: []candidate{on("a"), on("b", unseen)}, current: "a b", want: "a b"},
		"an address of another machine does not join":         {nodes: []candidate{on("a"), on("b", foreign)}, current: "a", want: "a"},
		"a Node that is about to leave drains":                {nodes: []candidate{on("a"), on("b", leaving)}, current: "a b", want: "a b~"},
		"a Node that is about to leave does not join":         {nodes: []candidate{on("a"), on("b", leaving)}, current: "a", want: "a"},
		"a drained Node leaves":                               {nodes: []candidate{on("a"), on("b", left)}, current: "a b", want: "a"},
		"the only Node does not drain":                        {nodes: []candidate{on("a", leaving), on("b", never)}, current: "a", want: "a"},
		"the only Node stays though drained":                  {nodes: []candidate{on("a", left)}, current: "a", want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			var current []Member
			for name := range strings.FieldsSeq(tc.current) {
				current = append(current, Member{InstanceID: "i-" + name})
			}
			var got []string
			for _, m := range wanted(tc.nodes, current, tc.fallback != "none") {
				name := strings.TrimPrefix(m.InstanceID, "i-")
				if m.Draining {
					name += "~"
				}
				got = append(got, name)
			}
			if diff := cmp.Diff(strings.Fields(tc.want), append([]string{}, got...)); diff != "" {
				t.Errorf("unexpected members (-want +got):\n%s", diff)
			}
		})
	}
}

// wanted returns the members that group default should have.
func wanted(nodes []candidate, current []Member, fallbackAll bool) []Member {
	return decide(choose("default", nodes, current, fallbackAll), nodes, current)
}

func TestDecideTakesOneNodeAnInstance(t *testing.T) {
	first, second := on("a"), on("b")
	second.instanceID, second.zone, first.zone = "i-a", "second", "first"
	want := []Member{{InstanceID: "i-a", Zone: "first", Addresses: []string{"10.0.0.97"}, Weight: 1}}
	if diff := cmp.Diff(want, wanted([]candidate{second, first}, nil, true)); diff != "" {
		t.Errorf("unexpected members (-want +got):\n%s", diff)
	}
}

func TestMember(t *testing.T) {
	const mine, moved, theirs = "10.0.0.1", "10.0.0.2", "192.0.2.1"
	current := []Member{{InstanceID: "i-a", Addresses: []string{mine}, Zone: "eu-1a", Weight: 7, Draining: true}}
	for name, tc := range map[string]struct {
		addresses []string
		machine   *Machine
		current   []Member
		// want are the addresses of the member; nil means that there is none.
		want []string
	}{
		"assigned":                           {addresses: []string{mine}, machine: &Machine{Addresses: []string{mine, moved}}, want: []string{mine}},
		"one of each family":                 {addresses: []string{mine, moved, "fd00::1"}, machine: &Machine{Addresses: []string{moved, mine, "fd00::1"}}, want: []string{mine, "fd00::1"}},
		"a foreign address is skipped":       {addresses: []string{theirs, mine}, machine: &Machine{Addresses: []string{mine}}, want: []string{mine}},
		"only a foreign address":             {addresses: []string{theirs}, machine: &Machine{Addresses: []string{mine}}},
		"a member does not move there":       {addresses: []string{theirs}, machine: &Machine{Addresses: []string{mine}}, current: current, want: []string{mine}},
		"nor stays where it does not belong": {addresses: []string{theirs}, machine: &Machine{Addresses: []string{moved}}, current: current},
		"a member moves":                     {addresses: []string{moved}, machine: &Machine{Addresses: []string{moved}}, current: current, want: []string{moved}},
		"no answer of the cloud":             {addresses: []string{mine}},
		"a member without answer stays":      {addresses: []string{moved}, current: current, want: []string{mine}},
		"a member without address stays":     {machine: &Machine{Addresses: []string{mine}}, current: current, want: []string{mine}},
	} {
		t.Run(name, func(t *testing.T) {
			n := candidate{instanceID: "i-a", addresses: tc.addresses, zone: "eu-1a", machine: tc.machine}
			m, usable := n.member(tc.current)
			if usable != (tc.want != nil) || usable && !slices.Equal(m.Addresses, tc.want) {
				t.Errorf("addresses %v, usable %t; want %v", m.Addresses, usable, tc.want)
			}
			if m.Weight != memberWeight || m.Draining {
				t.Errorf("weight %d, draining %t; want the ones of every member", m.Weight, m.Draining)
			}
		})
	}
}

func TestDifference(t *testing.T) {
	a, b := Member{InstanceID: "a", Addresses: []string{"10.0.0.1"}}, Member{InstanceID: "b", Zone: "eu-1b"}
	moved := Member{InstanceID: "a", Addresses: []string{"10.0.0.9"}}
	heavy, draining := b, b
	heavy.Weight, draining.Draining = 256, true
	for name, tc := range map[string]struct {
		current, wanted []Member
		upsert          []Member
		remove          []string
	}{
		"equal in any order": {current: []Member{b, a}, wanted: []Member{a, b}},
		"join":               {current: []Member{a}, wanted: []Member{a, b}, upsert: []Member{b}},
		"leave":              {current: []Member{b, a}, wanted: nil, remove: []string{"a", "b"}},
		"another weight":     {current: []Member{a, heavy}, wanted: []Member{a, b}, upsert: []Member{b}},
		"another state":      {current: []Member{a, draining}, wanted: []Member{a, b}, upsert: []Member{b}},
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
