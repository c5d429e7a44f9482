package tenants_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quaymaster.dev/test/bench/admission/machine"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/process"
)

// Limits on the webhook, of which a tenant must not make it exceed any.
const (
	mebibyte = 1 << 20
	// idleLimit is the goal after load in docs/explanation/performance.md: these webhooks have answered reviews before
	// they are measured, and the pages of the program count, of which more are resident the more the machine has cached.
	idleLimit   = 48 * mebibyte
	growthLimit = 32 * mebibyte // in addition to half of the idle memory
	// requestLimit is how much CPU time a request may cost, as a multiple of yardstick: machines differ, and one machine
	// from minute to minute. The goal is 3; processors were seen on which one review costs 3.1.
	requestLimit = 4
	// settle is how long a webhook is left alone before its memory counts as that of an idle one.
	settle = 300 * time.Millisecond
)

// attack is one way for a tenant to weaken admission.
type attack struct {
	// name says what the attacker does.
	name string
	// args are additional arguments of the webhook.
	args []string
	// before runs while no webhook runs, so that what the attacker writes is not reviewed.
	before func(*stage)
	// run attacks the running webhook while innocent tenants work.
	run func(*stage)
	// long is an attack only with -full.
	long bool
}

// stage is where one attack happens.
type stage struct {
	*testing.T
	// namespace is that of the attacker.
	namespace string
	webhook   *env.Webhook
	attacker  *user

	tally tally
	// gate is held by innocent tenants during each write.
	gate sync.RWMutex

	mu sync.Mutex
	// stored are invalid objects of the attacker that were stored.
	stored []string
	// cpu and requests are what hostile requests cost; worst is the most expensive kind of request, as a multiple of yardstick.
	cpu      time.Duration
	requests int
	worst    float64
	worstOf  string
	notes    []string
}

// figures are what an attack achieved.
type figures struct {
	attack               string
	idle, peak           int64
	cpu                  time.Duration
	worst                float64
	worstOf              string
	requests             int
	storedInvalid        int
	refusedValid         int
	valid, invalid       int
	unanswered, unmarked int
	failOpen             float64
	slowest              time.Duration
	notes                []string
}

const tableHead = "| attack | idle MiB | peak MiB | limit | CPU ms/request | worst ÷ yardstick | stored invalid | refused valid | innocents valid+invalid | unanswered | fail-open | slowest |\n" +
	"|---|---|---|---|---|---|---|---|---|---|---|---|"

func (f figures) String() string {
	mib := func(n int64) float64 { return float64(n) / mebibyte }
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	worst := "–"
	if f.worst > 0 {
		worst = fmt.Sprintf("%.2f (%.70s)", f.worst, f.worstOf)
	}
	return fmt.Sprintf("| %s | %.0f | %.0f | %.0f | %.1f | %s | %d | %d | %d+%d | %d | %.0f | %.1fs |", f.attack, mib(f.idle), mib(f.peak),
		mib(memoryLimit(f.idle)), ms(f.cpu), worst, f.storedInvalid, f.refusedValid, f.valid, f.invalid, f.unanswered, f.failOpen, f.slowest.Seconds())
}

func memoryLimit(idle int64) int64 { return idle*3/2 + growthLimit }

// duration returns how long an attack lasts.
func duration(brief, long time.Duration) time.Duration {
	if *full {
		return long
	}
	return brief
}

// size returns how much of something an attack has.
func size(brief, long int) int {
	if *full {
		return long
	}
	return brief
}

// play runs an attack and returns its figures.
func (a attack) play(t *testing.T) figures {
	s := &stage{T: t, namespace: unique(attackerName), attacker: shared.attacker}
	if err := admit(t.Context(), shared.Env, attackerName, s.namespace); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, "the attacker's rights", func(ctx context.Context) error {
		if got := s.attacker.get(ctx, servicesOf(s.namespace)); !got.ok() {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
	if a.before != nil {
		measureIdle(t)
		a.before(s)
	}
	s.webhook = startWebhook(t, a.args...)
	f := figures{attack: a.name, idle: shared.idle}
	if a.before == nil {
		time.Sleep(settle)
		f.idle = s.memory().Resident
		shared.idle = f.idle
	}
	if err := machine.ResetPeak(s.webhook.PID()); err != nil {
		t.Fatal(err)
	}
	failedOpen := failOpen(t)
	stop := s.innocents()
	began, used := time.Now(), cpuOfAPIServer(t)
	a.run(s)
	stop()
	s.note("%s, %s of CPU time of the API server", time.Since(began).Round(100*time.Millisecond),
		(cpuOfAPIServer(t) - used).Round(100*time.Millisecond))
	f.failOpen = failOpen(t) - failedOpen
	if exit := s.webhook.Exit(); exit != nil {
		t.Fatalf("the webhook did not survive: %v", exit)
	}
	f.peak = s.memory().Peak
	if s.requests > 0 {
		f.cpu = s.cpu / time.Duration(s.requests)
	}
	f.worst, f.worstOf, f.requests, f.notes = s.worst, s.worstOf, s.requests, s.notes
	found := s.findInvalid()
	f.storedInvalid, f.refusedValid = len(found), len(s.tally.refused)
	f.valid, f.invalid, f.slowest = s.tally.valid, s.tally.invalid, s.tally.slowest
	f.unanswered, f.unmarked = len(s.tally.unanswered), s.tally.incomplete
	s.check(f, found)
	return f
}

// measureIdle measures an idle webhook, unless another attack has done so, and stops it.
func measureIdle(t *testing.T) {
	t.Helper()
	if shared.idle > 0 {
		return
	}
	w := startWebhook(t)
	time.Sleep(settle)
	m, err := machine.MemoryOf(w.PID())
	if err != nil {
		t.Fatal(err)
	}
	shared.idle = m.Resident
	if err := w.Stop(20 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// check fails the test for every limit that the attack made the webhook exceed.
func (s *stage) check(f figures, found []string) {
	if len(found) > 0 {
		s.Errorf("%d invalid objects were stored: %s", len(found), some(found))
	}
	if len(s.tally.refused) > 0 {
		s.Errorf("%d valid Services of innocent tenants were refused: %s", len(s.tally.refused), some(s.tally.refused))
	}
	if limit := memoryLimit(f.idle); f.peak > limit {
		s.Errorf("the webhook used %d MiB, more than %d MiB", f.peak/mebibyte, limit/mebibyte)
	}
	if f.worst > requestLimit {
		s.Errorf("%s costs %.2f times as much CPU time as encoding/json needs to check 8 MiB, more than %d", f.worstOf, f.worst, requestLimit)
	}
	if f.valid == 0 || f.invalid == 0 {
		s.Errorf("innocent tenants got answers to %d valid and %d invalid Services only: %s", f.valid, f.invalid, some(s.tally.unanswered))
	}
	if len(s.tally.unanswered) > 0 {
		s.Logf("%d requests of innocent tenants were not answered by the API server: %s", len(s.tally.unanswered), some(s.tally.unanswered))
	}
	if f.unmarked > 0 {
		s.Errorf("%d valid Services were stored without defaults", f.unmarked)
	}
	for _, note := range s.notes {
		s.Log(note)
	}
	s.Log(tableHead + "\n" + f.String())
}

// some quotes the first of many problems.
func some(problems []string) string {
	first := slices.Clone(problems[:min(4, len(problems))])
	for i := range first {
		first[i] = short(first[i])
	}
	return strings.Join(first, "; ")
}

// innocents lets innocent tenants work until the returned function is called.
func (s *stage) innocents() (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var working sync.WaitGroup
	for _, u := range shared.innocents {
		working.Go(func() { work(ctx, u, &s.tally, &s.gate) })
	}
	return func() {
		cancel()
		working.Wait()
	}
}

func (s *stage) memory() machine.Memory {
	s.Helper()
	m, err := machine.MemoryOf(s.webhook.PID())
	if err != nil {
		s.Fatal(err)
	}
	return m
}

// note adds a line to the report.
func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// cost measures the webhook's CPU time for hostile requests while innocent tenants wait. send returns how many requests it
// sent; if the webhook counts more, as for one write that several webhooks see, those count.
func (s *stage) cost(what string, send func() (requests int)) {
	s.Helper()
	s.gate.Lock()
	defer s.gate.Unlock()
	var least float64
	// Other work on the machine makes requests slower and never faster: before one counts as too expensive, it is sent again.
	for attempt := 0; attempt == 0 || attempt < 5 && least > requestLimit; attempt++ {
		before := s.calls()
		began := s.cpuTime()
		n := send()
		used := s.cpuTime() - began
		n = max(n, s.calls()-before)
		if n == 0 {
			return
		}
		s.cpu += used
		s.requests += n
		each := used / time.Duration(n)
		if shared.yardstick == 0 || each > requestLimit*shared.yardstick {
			shared.yardstick = yardstick(s.T)
		}
		if ratio := float64(each) / float64(shared.yardstick); attempt == 0 || ratio < least {
			least = ratio
		}
	}
	if least > s.worst {
		s.worst, s.worstOf = least, what
	}
}

// document is a JSON object of 8 MiB, more than the two of at most 3 MiB that an API server sends for an update.
var document = func() []byte {
	text := []byte("{")
	for i := 0; len(text) < 8*mebibyte; i++ {
		text = fmt.Appendf(text, `"name%d":0,`, i)
	}
	return append(text, `"last":0}`...)
}()

// yardstick returns the CPU time that encoding/json needs to check the syntax of document.
func yardstick(t *testing.T) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &before)
	valid := json.Valid(document)
	if err = errors.Join(err, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &after)); err != nil || !valid {
		t.Fatalf("check JSON (valid: %t): %v", valid, err)
	}
	return time.Duration(after.Nano() - before.Nano())
}

func (s *stage) cpuTime() time.Duration {
	s.Helper()
	used, err := machine.CPU(s.webhook.PID())
	if err != nil {
		s.Fatal(err)
	}
	return used
}

// cpuOfAPIServer returns the CPU time that the API server has used.
func cpuOfAPIServer(t *testing.T) time.Duration {
	t.Helper()
	all := shared.Processes()
	i := slices.IndexFunc(all, func(p *process.Process) bool { return p.Name() == "kube-apiserver" })
	used, err := machine.CPU(all[i].PID())
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// calls returns how many requests the webhook has answered, or 0 if its metrics do not answer.
func (s *stage) calls() int {
	n := 0
	for line := range strings.Lines(s.scrape(10 * time.Second)) {
		if strings.HasPrefix(line, "quaymaster_webhook_requests_total{") {
			value, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndex(line, " "):]))
			if err != nil {
				s.Fatal(err)
			}
			n += value
		}
	}
	return n
}

// scrape returns the webhook's metrics over a new connection, as Prometheus does after a restart; empty without an answer.
func (s *stage) scrape(limit time.Duration) string {
	text, err := fetch(s.Context(), s.webhook.Metrics, limit)
	if err != nil {
		return ""
	}
	return text
}

func fetch(ctx context.Context, url string, limit time.Duration) (string, error) {
	client := &http.Client{Timeout: limit, Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s: %.200s", response.Status, text)
	}
	return string(text), err
}

// failOpen returns how often the API server has admitted a request because no validating webhook answered.
func failOpen(t *testing.T) float64 {
	t.Helper()
	got := shared.admin.get(t.Context(), "/metrics")
	if !got.ok() {
		t.Fatal(got)
	}
	sum := 0.0
	for line := range strings.Lines(string(got.text)) {
		if strings.HasPrefix(line, "apiserver_admission_webhook_fail_open_count{") && strings.Contains(line, `name="validate.`) {
			n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// expectRefusal notes an object that was stored although it is invalid. what describes the write.
func (s *stage) expectRefusal(what string, got answer) {
	switch {
	case got.ok():
		s.mu.Lock()
		s.stored = append(s.stored, s.namespace+": "+what)
		s.mu.Unlock()
	case !got.refused():
		s.note("%s: not answered: %s", what, short(got.String()))
	}
}

// expectSuccess fails the test if a legal write of the attacker was refused.
func (s *stage) expectSuccess(what string, got answer) bool {
	s.Helper()
	if !got.ok() {
		s.Errorf("%s: %s", what, short(got.String()))
	}
	return got.ok()
}

// findInvalid returns all invalid objects of the attacker and of innocent tenants, and deletes the Services.
func (s *stage) findInvalid() []string {
	s.Helper()
	found := map[string]bool{}
	for _, what := range slices.Concat(s.stored, s.tally.stored) {
		found[what] = true
	}
	for _, namespace := range append([]string{s.namespace}, names(shared.innocents)...) {
		got := shared.admin.send(s.Context(), http.MethodGet, servicesOf(namespace), "", nil)
		var list struct {
			Items []struct {
				Metadata struct {
					Name        string            `json:"name"`
					Annotations map[string]string `json:"annotations"`
				} `json:"metadata"`
			} `json:"items"`
		}
		if err := json.Unmarshal(got.text, &list); !got.ok() || err != nil {
			s.Fatalf("%s: %v", got, err)
		}
		recorded := s.tally.stored
		if namespace == s.namespace {
			recorded = s.stored
		}
		for _, item := range list.Items {
			if item.Metadata.Annotations[dlb+"scheduler"] == "fastest" && len(recorded) == 0 {
				found[fmt.Sprintf("%s/%s is stored", namespace, item.Metadata.Name)] = true
			}
			shared.admin.remove(s.Context(), servicesOf(namespace)+"/"+item.Metadata.Name)
		}
	}
	var all []string
	for what := range found {
		all = append(all, what)
	}
	slices.Sort(all)
	return all
}

func names(users []*user) []string {
	var all []string
	for _, u := range users {
		all = append(all, u.name)
	}
	return all
}

// logSize returns how much the webhook has logged.
func (s *stage) logSize() int64 {
	s.Helper()
	info, err := os.Stat(s.webhook.Log())
	if err != nil {
		s.Fatal(err)
	}
	return info.Size()
}
