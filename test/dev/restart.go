package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"quaymaster.dev/test/env"
)

const (
	// soon is a life too short to be worth another try.
	soon = 10 * time.Second
	// tries is how many short lives in a row end the demonstration.
	tries = 3
)

// keepRunning starts a program again whenever it ends, as a Deployment would, so that killing it can be tried. It
// returns when the context ends, or with the program's last words when it does not stay up.
func keepRunning(ctx context.Context, server *env.Server, out io.Writer) error {
	for short := 0; ; {
		began := time.Now()
		select {
		case <-ctx.Done():
			return nil
		case <-server.Done():
		}
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > soon {
			short = 0
		}
		if short++; short > tries {
			return server.Exit()
		}
		fmt.Fprintf(out, "… %s ended (%s), starting it again\n", server.Name(), server.How())
		if err := server.Launch(); err != nil {
			return err
		}
	}
}
