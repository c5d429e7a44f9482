// Command controllers measures what the controllers cost: their calls of the cloud, their memory and their CPU
// time, in clusters of several sizes on a real API server and the reference cloud, next to the controllers of
// k8s.io/cloud-provider. `make bench-controllers` builds what it needs, runs it and prints the tables of benchstat;
// docs/explanation/controllers-performance.md describes the results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"quaymaster.dev/test/bench/admission/results"
)

func main() {
	sizes, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-controllers:", err)
		os.Exit(2)
	}
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, sizes, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-controllers:", err)
		os.Exit(1)
	}
}

// parse returns the sizes of clusters to measure.
func parse(args []string) ([]size, error) {
	fs := flag.NewFlagSet("bench-controllers", flag.ContinueOnError)
	sizes := fs.String("sizes", "100x100,1000x1000,10000x5000", "sizes of the cluster, as Services x Nodes, the smallest first")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	var list []size
	last := size{}
	for text := range strings.SplitSeq(*sizes, ",") {
		services, nodes, _ := strings.Cut(text, "x")
		s, err1 := strconv.Atoi(services)
		n, err2 := strconv.Atoi(nodes)
		if err1 != nil || err2 != nil || s < max(4, last.services) || n < max(20, last.nodes) {
			return nil, fmt.Errorf("-sizes must be like 100x100,1000x1000, at least 4x20, the smallest first; got %q", *sizes)
		}
		last = size{s, n}
		list = append(list, last)
	}
	return list, nil
}

// bench is a run. Its methods may be called at the same time.
type bench struct {
	out       io.Writer
	progress  func(format string, args ...any)
	described sync.Once
}

// run measures everything and writes the results to out. Every size and the demonstration have a cluster of their own and
// run at the same time: neither the number of calls nor the CPU time of a process depends on how busy the machine is.
func run(ctx context.Context, sizes []size, out io.Writer) error {
	began := time.Now()
	b := &bench{out: out, progress: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%5s  %s\n", time.Since(began).Round(time.Second), fmt.Sprintf(format, args...))
	}}
	fmt.Fprint(out, units)
	running, ctx := errgroup.WithContext(ctx)
	for _, s := range sizes {
		running.Go(func() error { return b.measure(ctx, s) })
	}
	running.Go(func() error { return b.demonstrate(ctx) })
	err := running.Wait()
	b.progress("finished")
	return err
}

// measure measures both kinds of controllers in one cluster.
func (b *bench) measure(ctx context.Context, s size) (err error) {
	w, err := open(ctx, "controllers")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	b.described.Do(func() { err = results.Describe(ctx, b.out, w.Env) })
	if err != nil {
		return err
	}
	if err := w.grow(ctx, s.services, s.nodes); err != nil {
		return err
	}
	for number, controllers := range []string{ours, stock} {
		m := measurement{size: s, controllers: controllers}
		if err := w.measure(ctx, &m, number, func(format string, args ...any) {
			b.progress("%s, %s: %s", s, controllers, fmt.Sprintf(format, args...))
		}); err != nil {
			return err
		}
		m.write(b.out)
	}
	return nil
}
