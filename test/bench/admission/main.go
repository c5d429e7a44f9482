// Command admission measures what admission costs: Services are created by server-side dry run on a real API
// server without admission, with admission policies in CEL, with two simple webhooks and with Quaymaster. `make
// bench-admission` builds what it needs, runs it in a network namespace and prints the tables of benchstat;
// docs/explanation/performance.md describes the results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// options holds the flags.
type options struct {
	rounds      int
	duration    time.Duration
	concurrency []int
	only        []string
	before      string
	// attackRounds is the number of rounds of attacks.
	attackRounds int
	profiles     string
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-admission:", err)
		os.Exit(2)
	}
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench-admission:", err)
		os.Exit(1)
	}
	stop()
}

func parse(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("bench-admission", flag.ContinueOnError)
	fs.IntVar(&o.rounds, "rounds", 6, "number of rounds; each measures every configuration, in random order")
	fs.DurationVar(&o.duration, "duration", 1500*time.Millisecond, "length of one measurement")
	concurrency := fs.String("concurrency", "1,8,32,200", "numbers of concurrent clients")
	only := fs.String("only", "", "configurations to measure in addition to none and floor; empty for all")
	fs.StringVar(&o.before, "before", "", "program quaymaster of another build to compare with")
	fs.IntVar(&o.attackRounds, "attack-rounds", 2, "number of rounds of attacks; 0 for none")
	fs.StringVar(&o.profiles, "profiles", "", "folder to write CPU profiles to, taken after the last round")
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
	if o.rounds < 1 || o.attackRounds < 0 || o.duration <= 0 {
		return nil, errors.New("-rounds and -duration must be positive, and -attack-rounds must not be negative")
	}
	return o, nil
}

// run measures everything and writes the results to out.
func run(ctx context.Context, o *options, out, progress io.Writer) error {
	began := time.Now()
	b, err := open(ctx, o, out, progress)
	if err != nil {
		return err
	}
	err = b.measure(ctx)
	if err := errors.Join(err, b.close(err == nil)); err != nil {
		return err
	}
	fmt.Fprintf(progress, "finished in %s\n", time.Since(began).Round(time.Second))
	return nil
}
