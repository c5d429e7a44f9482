// Command benchadmission measures what admission costs: Services are created by server-side dry run on a real API
// server without admission, with admission policies in CEL, with two simple webhooks and with Quaymaster. `make
// bench-admission` builds what it needs and runs it; docs/explanation/performance.md describes the results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"quaymaster.dev/test/benchadmission/machine"
	"quaymaster.dev/test/benchadmission/results"
)

// target is the make target that runs the benchmark.
const target = "bench-admission"

// options holds the flags.
type options struct {
	rounds      int
	duration    time.Duration
	concurrency []int
	only        []string
	before      string
	via         string
	starts      int
	// attackRounds is the number of rounds of attacks.
	attackRounds int
	idle         time.Duration
	page         string
	profiles     string
	command      string
	keep         bool
	// isolated is set when the process runs in its own network namespace.
	isolated bool
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchadmission:", err)
		os.Exit(2)
	}
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := start(ctx, o); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "benchadmission:", err)
		os.Exit(1)
	}
	stop()
}

func parse(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("benchadmission", flag.ContinueOnError)
	fs.IntVar(&o.rounds, "rounds", 5, "number of rounds; each measures every configuration, in random order")
	fs.DurationVar(&o.duration, "duration", 1500*time.Millisecond, "length of one measurement")
	concurrency := fs.String("concurrency", "1,8,32,200", "numbers of concurrent clients")
	only := fs.String("only", "", "configurations to measure in addition to none and floor; empty for all")
	fs.StringVar(&o.before, "before", "", "program quaymaster of another build to compare with")
	fs.StringVar(&o.via, "via", "", "how the API server finds webhooks: service or url; empty for service if possible")
	fs.IntVar(&o.starts, "starts", 7, "how often each webhook is started to measure the time to its first answer")
	fs.IntVar(&o.attackRounds, "attack-rounds", 2, "number of rounds of attacks; 0 for none")
	fs.DurationVar(&o.idle, "idle", 10*time.Second, "how long the CPU time of idle webhooks is measured")
	fs.StringVar(&o.page, "page", "", "Markdown file to write the results into, between its markers")
	fs.StringVar(&o.profiles, "profiles", "", "folder to write CPU profiles to, taken after the last round")
	fs.StringVar(&o.command, "command", "make bench-admission", "the command that the results name")
	fs.BoolVar(&o.keep, "keep", false, "keep logs and certificates")
	fs.BoolVar(&o.isolated, "isolated", false, "set by the program itself: runs in its own network namespace")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; see -help", fs.Arg(0))
	}
	for field := range strings.SplitSeq(*concurrency, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-concurrency must be positive integers separated by commas; got %q", *concurrency)
		}
		o.concurrency = append(o.concurrency, n)
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	for _, name := range o.only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("-only must name some of %s; got %q", strings.Join(names, ", "), name)
		}
	}
	if o.rounds < 1 || o.attackRounds < 0 || o.starts < 1 || o.duration <= 0 || o.idle <= 0 {
		return nil, errors.New("-rounds, -starts, -duration and -idle must be positive")
	}
	if o.via != "" && o.via != viaService && o.via != viaURL {
		return nil, fmt.Errorf("-via must be service or url; got %q", o.via)
	}
	return o, nil
}

// start runs the benchmark in its own network namespace if the machine allows that, otherwise on an address of the
// machine.
func start(ctx context.Context, o *options) error {
	if o.isolated {
		if err := machine.Connect(addresses); err != nil {
			return err
		}
		return run(ctx, o, os.Stdout, os.Stderr)
	}
	cmd := machine.Isolated(ctx, "/proc/self/exe", slices.Concat([]string{"-isolated"}, os.Args[1:])...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "no network namespace (%v): using an address of this machine\n", err)
		return run(ctx, o, os.Stdout, os.Stderr)
	}
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return errors.New("failed, see above")
	}
	return err
}

// run measures and reports.
func run(ctx context.Context, o *options, out, progress io.Writer) error {
	began := time.Now()
	b, err := open(ctx, o, progress)
	if err != nil {
		return err
	}
	measured, err := b.measure(ctx)
	if err := errors.Join(err, b.close(err == nil)); err != nil {
		return err
	}
	text := measured.markdown()
	fmt.Fprintln(out, text)
	fmt.Fprintf(progress, "finished in %s\n", time.Since(began).Round(time.Second))
	if err := measured.failed(); err != nil {
		return err
	}
	if o.page == "" {
		return nil
	}
	return results.Write(o.page, target, text)
}
