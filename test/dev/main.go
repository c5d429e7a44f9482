// Command dev runs the demonstration behind `make dev`: a control plane, the reference cloud, a few pretended Nodes
// and both roles of Quaymaster as processes on loopback, in the foreground, until a signal ends it.
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

	"quaymaster.dev/test/env"
)

// patience is how long a run waits for a former one that is about to end.
const patience = 20 * time.Second

func main() {
	where := flag.String("dir", "", "where to keep everything (default .dev in the root of the repository)")
	keep := flag.Bool("keep-state", false, "go on with the cluster and the cloud of the last run")
	bound := flag.Bool("stop-with-parent", false, "end when the parent process ends, even if that is killed")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "dev: unexpected argument %q; see -help\n", flag.Arg(0))
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A second signal ends this process at once, and the kernel its children.
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
		err = nil // asked to end: what was interrupted is no failure
	}
	fmt.Fprintln(d.out, "\n… stopping everything")
	return errors.Join(err, d.stop(), dir.close())
}
