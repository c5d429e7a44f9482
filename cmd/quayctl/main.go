// Command quayctl is for people who install, run and use Quaymaster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"quaymaster.dev/cmd/quayctl/app"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return app.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
