// Command quaymaster runs the admission webhooks and the cloud controllers of the mycloud platform.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"quaymaster.dev/cmd/quaymaster/app"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return app.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
