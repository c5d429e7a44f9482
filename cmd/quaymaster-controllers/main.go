// Command quaymaster-controllers runs the cloud controllers. It is a program of its own, which `quaymaster controllers`
// executes, so that the webhooks do not carry the code of a cloud-controller-manager.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"quaymaster.dev/cmd/quaymaster-controllers/app"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return app.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
