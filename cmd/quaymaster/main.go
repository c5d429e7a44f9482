// Command quaymaster runs the admission webhooks and the cloud controllers of the mycloud platform.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"quaymaster.dev/cmd/quaymaster/app"
)

// init keeps main on the main thread. With another one, replacing the process by that of the controllers would lose the
// parent-death signal, by which a harness makes sure that nothing of it is left behind.
func init() { //nolint:gochecknoinits // once main has begun, it may already be on another thread
	runtime.LockOSThread()
}

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return app.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
