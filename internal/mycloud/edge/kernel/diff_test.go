//go:build linux

package kernel

import (
	"maps"
	"net/netip"
	"strings"
	"testing"

	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/kernel/nft"
)

// lines returns those that turn one ruleset into another.
func lines(from, to *nft.Ruleset) []string {
	script, _ := nft.Script(from, to)
	all := strings.Split(strings.TrimSpace(script), "\n")
	// The first line adds the table.
	return all[1:]
}

// rendered returns the ruleset of a configuration in which the members with these keys are healthy.
func rendered(c *config.Config, healthy string) *nft.Ruleset {
	r := planner{
		healthy:   func(_ config.PoolID, key string) bool { return strings.Contains(healthy, key) },
		reachable: func(netip.Addr, bool) error { return nil }, now: noon, before: newMemory(),
	}
	// Both members are known.
	marks := marker{memory: r.before}
	marks.mark("lb-1", target{address: netip.MustParseAddr("10.0.0.1")})
	marks.mark("lb-1", target{address: netip.MustParseAddr("10.0.0.2")})
	p := r.plan(c)
	renderer := renderer{flows: 1000}
	return renderer.render(p.services, p)
}

func TestDiff(t *testing.T) {
	twice := func(engine config.Engine) *config.Config {
		c := world()
		c.Listeners[0].Engine = engine
		c.Listeners = append(c.Listeners, c.Listeners[0])
		c.Listeners[1].Key, c.Listeners[1].Port = "tcp/81", 81
		return c
	}
	for name, tt := range map[string]struct {
		from, to *nft.Ruleset
		// want counts the lines by their first two words.
		want map[string]int
		// never is in no line.
		never string
	}{
		"nothing": {from: rendered(world(), "ab"), to: rendered(world(), "ab"), want: map[string]int{}},
		"a member leaves two listeners": {
			from: rendered(twice(config.Direct), "ab"), to: rendered(twice(config.Direct), "a"),
			want: map[string]int{
				"add map": 1, "add chain": 2, "add rule": 3, "delete element": 4, "add element": places + 4,
				"flush chain": 2, "delete chain": 2, "delete map": 1,
			},
			never: "direct/",
		},
		"a listener leaves": {
			from: rendered(twice(config.Direct), "ab"), to: rendered(world(), "ab"),
			want: map[string]int{"delete element": 4, "flush chain": 1, "delete chain": 1, "delete counter": 3},
		},
		"a limit changes": {
			from: rendered(world(), "ab"),
			to: func() *nft.Ruleset {
				c := world()
				c.Listeners[0].MaxQPS = 5
				return rendered(c, "ab")
			}(),
			want: map[string]int{"flush chain": 1, "add rule": 14},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for _, line := range lines(tt.from, tt.to) {
				if line == "" {
					continue
				}
				words := strings.Fields(line)
				got[words[0]+" "+words[1]]++
				if tt.never != "" && !strings.Contains(words[1], "element") && strings.Contains(line, tt.never) {
					t.Errorf("%q must not be changed: %s", tt.never, line)
				}
			}
			if !maps.Equal(got, tt.want) {
				t.Errorf("changes %v, want %v", got, tt.want)
			}
		})
	}
}

func TestDiffWritesUnknownAgain(t *testing.T) {
	to := rendered(world(), "ab")
	names := nft.NewRuleset()
	names.Chains["direct/lb-2/tcp/80/ipv4"] = &nft.Chain{}
	for name := range to.Chains {
		names.Chains[name] = &nft.Chain{}
	}
	for name, m := range to.Maps {
		names.Maps[name] = &nft.Map{Set: m.Set}
	}
	for name, f := range to.Flows {
		names.Flows[name] = nft.Flows{Set: f.Set}
	}
	names.Counters = to.Counters
	text := strings.Join(lines(names, to), "\n")
	for _, want := range []string{
		"flush chain inet mycloud-edge hook/raw\n", "flush chain inet mycloud-edge direct/lb-1/tcp/80/ipv4\n",
		"flush map inet mycloud-edge listeners4\n", "flush set inet mycloud-edge addresses4\n",
		"delete chain inet mycloud-edge direct/lb-2/tcp/80/ipv4",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the transaction has no %q", want)
		}
	}
	for _, never := range []string{"add chain", "add map", "flush map inet mycloud-edge flows/", "counter inet"} {
		if strings.Contains(text, never) {
			t.Errorf("the transaction has %q", never)
		}
	}
}
