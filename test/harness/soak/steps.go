// Package soak plays random sequences of numbered steps, and finds out which steps a failing one needs. What a step
// does depends on the seed of its sequence and on its number alone, so that it stays the same without the others.
package soak

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Steps returns the numbers of the steps to play: those in the list, which has commas, or all of them if it is empty.
func Steps(list string, length int) []int {
	var numbers []int
	if list == "" {
		for n := range length {
			numbers = append(numbers, n)
		}
		return numbers
	}
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			panic(fmt.Sprintf("steps: %v", err))
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// join returns the list of the steps that Steps reads.
func join(steps []int) string {
	var list []string
	for _, n := range steps {
		list = append(list, strconv.Itoa(n))
	}
	return strings.Join(list, ",")
}

// Counts is how much was played, in the order in which it was first counted. What one process prints, another one can
// add up.
type Counts []count

type count struct {
	name string
	n    int
}

// Note adds to a count.
func (c *Counts) Note(name string, n int) {
	for i := range *c {
		if (*c)[i].name == name {
			(*c)[i].n += n
			return
		}
	}
	*c = append(*c, count{name, n})
}

// Add adds other counts.
func (c *Counts) Add(other Counts) {
	for _, o := range other {
		c.Note(o.name, o.n)
	}
}

// of returns one count.
func (c Counts) of(name string) int {
	for _, one := range c {
		if one.name == name {
			return one.n
		}
	}
	return 0
}

// String returns the counts as words such as steps=3.
func (c Counts) String() string {
	var words []string
	for _, one := range c {
		words = append(words, fmt.Sprintf("%s=%d", one.name, one.n))
	}
	return strings.Join(words, " ")
}

var (
	line = regexp.MustCompile(`seed=\d+((?: [a-z-]+=\d+)+)`)
	word = regexp.MustCompile(`([a-z-]+)=(\d+)`)
)

// Read returns the counts that a test has printed after its seed. It returns false if the output has none.
func Read(output string) (c Counts, ok bool) {
	found := line.FindStringSubmatch(output)
	if found == nil {
		return nil, false
	}
	for _, match := range word.FindAllStringSubmatch(found[1], -1) {
		n, err := strconv.Atoi(match[2])
		if err != nil {
			return nil, false
		}
		c.Note(match[1], n)
	}
	return c, true
}

// Sum adds up the counts in lines that tests have printed, one for each run.
func Sum(lines string) (runs int, total Counts) {
	for line := range strings.Lines(lines) {
		if c, ok := Read(line); ok {
			runs++
			total.Add(c)
		}
	}
	return runs, total
}

// shrink returns the fewest steps found with which a sequence fails, and how often it was played to find them, which is
// at most that many times. It returns no steps if the whole sequence does not fail in three plays.
func shrink(length, plays int, fails func(steps []int) bool) (steps []int, times int) {
	try := func(steps []int) bool {
		times++
		return fails(steps)
	}
	all := Steps("", length)
	// It may depend on the order of what happens at the same time.
	for steps == nil && times < 3 {
		if try(all) {
			steps = all
		}
	}
	for size := len(steps) / 2; size > 0 && times < plays; size /= 2 {
		for at := 0; at < len(steps) && times < plays; {
			without := slices.Delete(slices.Clone(steps), at, min(at+size, len(steps)))
			if len(without) > 0 && try(without) {
				steps = without
			} else {
				at += size
			}
		}
	}
	return steps, times
}
