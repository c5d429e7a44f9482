// Command mycloud is the reference implementation of the mycloud API and a command-line client for it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"quaymaster.dev/cmd/mycloud/app"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return app.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
