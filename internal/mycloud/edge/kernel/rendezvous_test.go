//go:build linux

package kernel

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// members returns n members with marks from 1.
func members(n int) []share {
	list := make([]share, n)
	for i := range list {
		list[i] = share{target{address: netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", i+1))}, uint32(i + 1), 1}
	}
	return list
}

// count returns how many places each mark has.
func count(table []uint32) map[uint32]int {
	counts := map[uint32]int{}
	for _, m := range table {
		counts[m]++
	}
	return counts
}

func TestRendezvousSpreadsEvenly(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 50} {
		counts := count(rendezvous(members(n), maxUnits))
		expected := float64(places) / float64(n)
		// Four standard deviations.
		tolerance := 4 * math.Sqrt(expected*(1-1/float64(n)))
		for m := range uint32(n) {
			if got := float64(counts[m+1]); math.Abs(got-expected) > tolerance {
				t.Errorf("%d members: member %d has %.0f places, want %.0f ± %.0f", n, m+1, got, expected, tolerance)
			}
		}
	}
	if rendezvous(nil, maxUnits) != nil {
		t.Error("a table without members is not empty")
	}
}

func TestRendezvousFollowsWeights(t *testing.T) {
	list := members(3)
	list[0].weight, list[1].weight, list[2].weight = 100, 200, 300
	counts := count(rendezvous(list, maxUnits))
	for m, want := range map[uint32]int{1: places / 6, 2: places / 3, 3: places / 2} {
		if got := counts[m]; got < want*8/10 || got > want*12/10 {
			t.Errorf("member %d has %d places, want about %d", m, got, want)
		}
	}
	list[2].weight = 1000003
	if counts := count(rendezvous(list, maxUnits)); counts[3] < places*9/10 {
		t.Errorf("the member of a very high weight has %d places", counts[3])
	}
}

func TestRendezvousIsTheSameOnAllEdges(t *testing.T) {
	list := members(7)
	table := rendezvous(list, maxUnits)
	slices.Reverse(list)
	names := map[uint32]uint32{}
	for i := range list {
		names[uint32(100+i)] = list[i].mark
		list[i].mark = uint32(100 + i)
	}
	for place, m := range rendezvous(list, maxUnits) {
		if names[m] != table[place] {
			t.Fatalf("place %d depends on order or marks", place)
		}
	}
}

func TestRendezvousMovesLittle(t *testing.T) {
	list := members(7)
	before := rendezvous(list, maxUnits)
	for place, m := range rendezvous(append(list[:2:2], list[3:]...), maxUnits) {
		if before[place] != 3 && before[place] != m {
			t.Fatalf("place %d moved from %d to %d when member 3 left", place, before[place], m)
		}
	}
}

// Large pools with large weights take no longer than those without weights, apart from a factor: the time is everyone's.
func TestRendezvousOfManyWeights(t *testing.T) {
	list := make([]share, 1000)
	// took returns the shortest of several times: the machine may have been busy with something else.
	took := func(weight func(i int) int) time.Duration {
		for i := range list {
			list[i] = share{target{address: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}, uint32(i + 1), weight(i)}
		}
		shortest := time.Hour
		for range 3 {
			start := time.Now()
			rendezvous(list, maxUnits)
			shortest = min(shortest, time.Since(start))
		}
		return shortest
	}
	equal, weighted := took(func(int) int { return 1 }), took(func(i int) int { return 255 + i%2 })
	t.Logf("equal weights: %v, weights of 255 and 256: %v", equal, weighted)
	if weighted > 100*equal {
		t.Errorf("weights of 255 and 256 take %v, equal ones %v", weighted, equal)
	}
}

// The table must never change between versions: edges of two versions carry traffic at the same time.
func TestRendezvousIsStable(t *testing.T) {
	list := members(3)
	list[1].weight = 2
	list[2].target.port = 53
	got := rendezvous(list, maxUnits)[:20]
	want := []uint32{2, 3, 2, 2, 2, 2, 2, 3, 3, 3, 3, 2, 3, 2, 2, 3, 2, 1, 1, 3}
	if !slices.Equal(got, want) {
		t.Errorf("the table begins with %v, want %v", got, want)
	}
}
