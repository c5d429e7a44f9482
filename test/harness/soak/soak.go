package soak

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"
)

// reported is how many failing seeds a soak reports before it gives up.
const reported = 3

// Test plays sequences in processes of their own, with this program's test that plays them. That test has the flags -seed,
// -sequences, -length and -only, a subtest called "seed N" for each sequence, and prints its Counts after seed=N.
type Test struct {
	// Name is that of the test, and Args are further arguments of it.
	Name string
	Args []string
	// Workers is how many processes play at a time, Batch how many sequences each one plays, and Length how many steps a
	// sequence has.
	Workers, Batch, Length int
	// Plays bounds how often a sequence is played to find the steps that it needs to fail.
	Plays int
	// Repeat returns the command that plays some steps of a sequence again.
	Repeat func(seed uint64, steps string) string
}

// failure is a sequence that fails, and what it prints.
type failure struct {
	seed   uint64
	output string
}

// Run plays sequences, beginning with that of the seed, until the time is over, and returns how much was played. Sequences
// that fail are errors of t, each with the steps that it needs.
func (s *Test) Run(t *testing.T, seed uint64, duration time.Duration) Counts {
	t.Helper()
	var mu sync.Mutex
	var total Counts
	var failed []failure
	begun := time.Now()
	end := begun.Add(duration)
	var running sync.WaitGroup
	for range s.Workers {
		running.Go(func() {
			for {
				mu.Lock()
				first := seed
				seed += uint64(s.Batch)
				over := time.Now().After(end) || len(failed) >= reported
				mu.Unlock()
				if over {
					return
				}
				output, err := s.play(t, first, s.Batch, "")
				c, complete := Read(output)
				mu.Lock()
				total.Add(c)
				if err != nil || !complete {
					for _, seed := range s.failing(output, first) {
						failed = append(failed, failure{seed: seed, output: output})
						t.Logf("seed %d fails:\n%s", seed, output)
					}
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	t.Logf("%.0f steps per second", float64(total.of("steps"))/time.Since(begun).Seconds())
	for _, f := range failed {
		t.Error(s.report(t, f))
	}
	return total
}

// play plays sequences in a process of its own, or some steps of them.
func (s *Test) play(t *testing.T, first uint64, count int, steps string) (output string, err error) {
	args := []string{"-test.run=^" + s.Name + "$", "-test.v", "-test.timeout=30m"}
	for name, value := range map[string]any{"seed": first, "sequences": count, "length": s.Length, "only": steps} {
		args = append(args, fmt.Sprintf("-%s=%v", name, value))
	}
	command := exec.CommandContext(t.Context(), os.Args[0], append(args, s.Args...)...) //nolint:gosec // it is this program
	raw, err := command.CombinedOutput()
	return string(raw), err
}

// failing returns the seeds of the sequences that have failed, which for a process that has crashed is the last one.
func (s *Test) failing(output string, first uint64) []uint64 {
	found := regexp.MustCompile(`--- FAIL: `+s.Name+`/seed_(\d+)`).FindAllStringSubmatch(output, -1)
	begun := regexp.MustCompile(`=== RUN +`+s.Name+`/seed_(\d+)`).FindAllStringSubmatch(output, -1)
	if len(found) == 0 && len(begun) > 0 {
		found = begun[len(begun)-1:]
	}
	var seeds []uint64
	for _, match := range found {
		if n, err := strconv.ParseUint(match[1], 10, 64); err == nil {
			seeds = append(seeds, n)
		}
	}
	if len(seeds) == 0 {
		return []uint64{first}
	}
	return seeds
}

// report returns which steps the sequence needs to fail, how to repeat it, and what it prints.
func (s *Test) report(t *testing.T, f failure) string {
	var output string
	steps, times := shrink(s.Length, s.Plays, func(steps []int) bool {
		printed, err := s.play(t, f.seed, 1, join(steps))
		if err != nil {
			output = printed
		}
		return err != nil
	})
	if steps == nil {
		return fmt.Sprintf("seed %d has failed, but not again in %d runs:\n%s", f.seed, times, f.output)
	}
	return fmt.Sprintf("seed %d fails with %d of %d steps; to repeat it: %s\n%s",
		f.seed, len(steps), s.Length, s.Repeat(f.seed, join(steps)), output)
}
