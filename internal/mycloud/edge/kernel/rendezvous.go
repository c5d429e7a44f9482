//go:build linux

package kernel

import (
	"crypto/sha256"
	"encoding/binary"
)

// places is the size of the tables. A prime spreads the hash evenly, and 1021 places keep the shares of 50 members
// within a few percent of what they should be.
const places = 1021

const (
	// maxUnits bounds the sum of the weights, and so the time it takes to build a table. It gives each place 16 units,
	// beyond which weights hardly change the table.
	maxUnits = 1 << 14
	// sharedUnits does the same for all tables of a load balancer: others wait until they are built.
	sharedUnits = 8 * maxUnits
)

// share is a member of a table.
type share struct {
	target target
	// mark is the member's on this edge; other edges may use another.
	mark   uint32
	weight int
}

// rendezvous returns the marks of the members that have the places. It depends on the targets and weights alone, not on
// their order or marks, and a member that joins or leaves moves only the places that it gets or had.
//
// Each member draws a number for each place and unit of weight, and the highest one gets the place. Units is how many
// there are in sum, or one for each member.
func rendezvous(members []share, units int) []uint32 {
	if len(members) == 0 {
		return nil
	}
	weights := reduced(members, units)
	seeds := make([]uint64, len(members))
	for i, m := range members {
		sum := sha256.Sum256([]byte(m.target.String()))
		seeds[i] = binary.BigEndian.Uint64(sum[:])
	}
	table := make([]uint32, places)
	for place := range table {
		var highest uint64
		best := -1
		for i, seed := range seeds {
			for unit := range weights[i] {
				drawn := mix(seed + mix(uint64(place)<<16|uint64(unit)))
				// Equal numbers are practically impossible; the seed decides, so that the order does not.
				if best < 0 || drawn > highest || drawn == highest && seed > seeds[best] {
					highest, best = drawn, i
				}
			}
		}
		table[place] = members[best].mark
	}
	return table
}

// reduced returns the weights divided by their greatest common divisor, and in sum at most so many units, unless each
// of the members has only one.
func reduced(members []share, units int) []int {
	divisor, sum := 0, 0
	for _, m := range members {
		divisor = gcd(m.weight, divisor)
		sum += m.weight
	}
	weights := make([]int, len(members))
	for i, m := range members {
		weights[i] = m.weight / divisor
		if sum/divisor > units {
			weights[i] = max(1, m.weight*units/sum)
		}
	}
	return weights
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// mix is the finalizer of SplitMix64: each bit of x changes about half of the bits of the result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
