// Command quayctl is for people who install, run and use Quaymaster.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"quaymaster.dev/cmd/quayctl/app"
)

// gcPercent trades memory, of which a short run needs little, for a third of its time.
const gcPercent = 400

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	debug.SetGCPercent(gcPercent)
	return app.Run(ctx, os.Args, os.Stdout, os.Stderr)
}
