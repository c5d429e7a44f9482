// Command dev runs the demonstration behind `make dev`: a control plane, the reference cloud, a few simulated Nodes and
// both roles of Quaymaster as processes on loopback, in the foreground, until it receives a signal.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"quaymaster.dev/test/harness/env"
)

// patience is how long a run waits for the previous run to terminate.
const patience = 20 * time.Second

func main() {
	where := flag.String("dir", "", "directory for all files (default .dev in the root of the repository)")
	keep := flag.Bool("keep-state", false, "keep the state of the cluster and the cloud of the last run")
	bound := flag.Bool("stop-with-parent", false, "terminate when the parent process terminates, even if it is killed")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "dev: unexpected argument %q; see -help\n", flag.Arg(0))
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A second signal terminates this process immediately; the kernel then terminates its children.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, *where, *keep, *bound); err != nil {
		fmt.Fprintln(os.Stderr, "dev:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, where string, keep, bound bool) error {
	if bound {
		if err := stopWithParent(); err != nil {
			return fmt.Errorf("stop with the parent process: %w", err)
		}
	}
	root, err := env.Root()
	if err != nil {
		return err
	}
	if where == "" {
		where = filepath.Join(root, ".dev")
	}
	dir, err := open(ctx, where, keep, patience, os.Stdout)
	if err != nil {
		return err
	}
	d := &demo{dir: dir, root: root, out: os.Stdout}
	err = d.run(ctx)
	if ctx.Err() != nil {
		err = nil // terminated by a signal: being interrupted is not a failure
	}
	fmt.Fprintln(d.out, "\n… stopping all processes")
	return errors.Join(err, d.stop(), dir.close())
}
