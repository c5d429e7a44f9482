package safety

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var soak = flag.Duration("soak", 0, "how long TestSoak runs")

const (
	// batch is how many sequences a process plays.
	batch = 10
	// soaked is how many steps a sequence of TestSoak has. The more there are, the less time goes into starting worlds and
	// waiting for their end.
	soaked = 240
	// replays bounds how often a sequence is played to find the steps that it needs to fail.
	replays = 80
	// reported is how many failing seeds TestSoak reports before it gives up.
	reported = 3
)

// counts is what was played. Its text can be added up over runs.
type counts struct {
	Sequences, Steps, Faults, Kills, Leases, Etcd, Clouds, Endpoints, Clusters, Violations int
}

const countsFormat = "sequences=%d steps=%d faults=%d kills=%d leases-lost=%d " +
	"etcd-restores=%d cloud-restores=%d wrong-endpoints=%d clusters=%d violations=%d"

func (c *counts) fields() []*int {
	return []*int{&c.Sequences, &c.Steps, &c.Faults, &c.Kills, &c.Leases, &c.Etcd, &c.Clouds, &c.Endpoints, &c.Clusters, &c.Violations}
}

func (c counts) String() string {
	var values []any
	for _, f := range c.fields() {
		values = append(values, *f)
	}
	return fmt.Sprintf(countsFormat, values...)
}

func (c *counts) add(other counts) {
	for i, f := range other.fields() {
		*c.fields()[i] += *f
	}
}

// parseCounts returns the counts in the output of TestRandom.
func parseCounts(output string) (c counts, ok bool) {
	_, text, ok := strings.Cut(output, "sequences=")
	if !ok {
		return c, false
	}
	var fields []any
	for _, f := range c.fields() {
		fields = append(fields, f)
	}
	_, err := fmt.Sscanf("sequences="+text, countsFormat, fields...)
	return c, err == nil
}

// sum adds up the counts in the lines that TestSoak has written.
func sum(lines string) (runs int, total counts) {
	for line := range strings.Lines(lines) {
		if c, ok := parseCounts(line); ok {
			runs++
			total.add(c)
		}
	}
	return runs, total
}

// TestSoak plays random sequences for as long as -soak says, each batch in a process of its own with one thread: that is
// faster than several threads that wait for each other. It reports which steps a failing sequence needs.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("it runs only with -soak")
	}
	begun := time.Now()
	s := &soaking{next: *seed, end: begun.Add(*soak)}
	var running sync.WaitGroup
	for range runtime.NumCPU() {
		running.Go(func() { s.run(t) })
	}
	running.Wait()
	figure(t, "soak: seed=%d %s", *seed, s.total)
	t.Logf("soak: %.0f steps per second", float64(s.total.Steps)/time.Since(begun).Seconds())
	if *figures != "" {
		raw, err := os.ReadFile(*figures)
		if err != nil {
			t.Fatal(err)
		}
		runs, total := sum(string(raw))
		t.Logf("soak: %d runs in %s: %s", runs, *figures, total)
	}
	for _, f := range s.failed {
		t.Error(f.report())
	}
}

// soaking is a run of TestSoak.
type soaking struct {
	end time.Time

	mu     sync.Mutex
	next   uint64
	total  counts
	failed []failure
}

// failure is a sequence that fails, and what it prints.
type failure struct {
	seed   uint64
	output string
}

func (s *soaking) run(t *testing.T) {
	for {
		s.mu.Lock()
		first := s.next
		s.next += batch
		over := time.Now().After(s.end) || len(s.failed) >= reported
		s.mu.Unlock()
		if over {
			return
		}
		output, err := replay(first, batch, "")
		c, complete := parseCounts(output)
		s.mu.Lock()
		s.total.add(c)
		if err != nil || !complete {
			for _, seed := range failing(output, first) {
				s.failed = append(s.failed, failure{seed: seed, output: output})
				t.Logf("seed %d fails", seed)
			}
		}
		s.mu.Unlock()
	}
}

// replay plays sequences in a process of its own, or some steps of them.
func replay(first, count uint64, steps string) (output string, err error) {
	args := []string{"-test.run=^TestRandom$", "-test.v", "-test.timeout=15m"}
	for name, value := range map[string]any{"seed": first, "sequences": count, "length": soaked, "only": steps, "kinds": *kinds} {
		args = append(args, fmt.Sprintf("-%s=%v", name, value))
	}
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=1000")
	raw, err := command.CombinedOutput()
	return string(raw), err
}

var (
	failedSeed = regexp.MustCompile(`--- FAIL: TestRandom/seed_(\d+)`)
	begunSeed  = regexp.MustCompile(`=== RUN +TestRandom/seed_(\d+)`)
)

// failing returns the seeds of the sequences that have failed, which for a process that has crashed is the last one.
func failing(output string, first uint64) []uint64 {
	found := failedSeed.FindAllStringSubmatch(output, -1)
	if begun := begunSeed.FindAllStringSubmatch(output, -1); len(found) == 0 && len(begun) > 0 {
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
func (f failure) report() string {
	steps, output, times := shrink(f.seed)
	if output == "" {
		return fmt.Sprintf("seed %d has failed, but not again in %d runs:\n%s", f.seed, times, f.output)
	}
	return fmt.Sprintf("seed %d fails with %d of %d steps; to repeat it: make replay SEED=%d KINDS=%s STEPS=%s\n%s",
		f.seed, len(steps), soaked, f.seed, *kinds, join(steps), output)
}

// shrink returns the fewest steps found with which a sequence still fails, what it then prints, and how often it was
// played. The output is empty if it does not fail again.
func shrink(seed uint64) (steps []int, output string, times int) {
	fails := func(steps []int) bool {
		times++
		printed, err := replay(seed, 1, join(steps))
		if err != nil {
			output = printed
		}
		return err != nil
	}
	for n := range soaked {
		steps = append(steps, n)
	}
	// It may depend on the order of what happens at the same time.
	for range 3 {
		if fails(steps) {
			break
		}
	}
	for size := len(steps) / 2; size > 0 && output != "" && times < replays; size /= 2 {
		for at := 0; at < len(steps) && times < replays; {
			without := slices.Delete(slices.Clone(steps), at, min(at+size, len(steps)))
			if len(without) > 0 && fails(without) {
				steps = without
			} else {
				at += size
			}
		}
	}
	return steps, output, times
}

func join(steps []int) string {
	var list []string
	for _, n := range steps {
		list = append(list, strconv.Itoa(n))
	}
	return strings.Join(list, ",")
}

// TestCounts: what one process prints, another one can add up.
func TestCounts(t *testing.T) {
	c := counts{Sequences: 1, Steps: 2, Faults: 3, Kills: 4, Clusters: 5, Violations: 6}
	read, ok := parseCounts("    random_test.go:60: random sequences: seed=7 " + c.String() + "\n--- PASS")
	if !ok || read != c {
		t.Errorf("%s is read as %+v", c, read)
	}
	runs, total := sum("soak: seed=7 " + c.String() + "\nsoak: seed=8 " + c.String() + "\n")
	if runs != 2 || total.Steps != 4 || total.Violations != 12 {
		t.Errorf("the sum of %d runs is %+v", runs, total)
	}
}
