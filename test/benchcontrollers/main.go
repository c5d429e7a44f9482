// Command benchcontrollers measures what the controllers cost: their calls of the cloud, their memory and their CPU
// time, in clusters of several sizes on a real API server and the reference cloud, next to the controllers of
// k8s.io/cloud-provider. `make bench-controllers` builds what it needs and runs it;
// docs/explanation/controllers-performance.md describes the results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"quaymaster.dev/test/benchadmission/machine"
	"quaymaster.dev/test/benchadmission/results"
)

// target is the make target that runs the benchmark.
const target = "bench-controllers"

// options holds the flags.
type options struct {
	sizes         []size
	demonstration bool
	page, command string
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchcontrollers:", err)
		os.Exit(2)
	}
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchcontrollers:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("benchcontrollers", flag.ContinueOnError)
	sizes := fs.String("sizes", "100x100,1000x1000,10000x5000", "sizes of the cluster, as Services x Nodes, the smallest first")
	fs.BoolVar(&o.demonstration, "demonstration", true, "run the demonstration with false answers of the cloud")
	fs.StringVar(&o.page, "page", "", "Markdown file to write the results into, between its markers")
	fs.StringVar(&o.command, "command", "make "+target, "the command that the results name")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	last := size{}
	for text := range strings.SplitSeq(*sizes, ",") {
		services, nodes, _ := strings.Cut(text, "x")
		s, err1 := strconv.Atoi(services)
		n, err2 := strconv.Atoi(nodes)
		if err1 != nil || err2 != nil || s < max(4, last.services) || n < max(20, last.nodes) {
			return nil, fmt.Errorf("-sizes must be like 100x100,1000x1000, at least 4x20, the smallest first; got %q", *sizes)
		}
		last = size{s, n}
		o.sizes = append(o.sizes, last)
	}
	return o, nil
}

// run measures and reports. Every size and the demonstration have a cluster of their own and run at the same time:
// neither the number of calls nor the CPU time of a process depends on how busy the machine is.
func run(ctx context.Context, o *options) (err error) {
	began := time.Now()
	progress := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%5s  %s\n", time.Since(began).Round(time.Second), fmt.Sprintf(format, args...))
	}
	r := &report{options: o, facts: machine.Describe(), date: began.UTC().Format(time.DateOnly)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	failures := make([]error, len(o.sizes)+1)
	r.measurements = make([][]measurement, len(o.sizes))
	for i, s := range o.sizes {
		running.Go(func() {
			if r.measurements[i], failures[i] = r.measure(ctx, s, progress); failures[i] != nil {
				cancel()
			}
		})
	}
	if o.demonstration {
		running.Go(func() {
			if r.demonstration, failures[len(o.sizes)] = demonstrate(ctx, progress); failures[len(o.sizes)] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	text := r.markdown()
	fmt.Println(text)
	progress("finished")
	if o.page == "" {
		return nil
	}
	return results.Write(o.page, target, text)
}

// measure measures both kinds of controllers in one cluster.
func (r *report) measure(ctx context.Context, s size, progress func(string, ...any)) (list []measurement, err error) {
	w, err := open(ctx, "controllers")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	versions, err := results.Versions(ctx, w.Env, "k8s.io/cloud-provider")
	if err != nil {
		return nil, err
	}
	r.setVersions(versions)
	if err := w.grow(ctx, s.services, s.nodes); err != nil {
		return nil, err
	}
	for number, stock := range []bool{false, true} {
		m := measurement{size: s, stock: stock}
		if err := w.measure(ctx, &m, number, func(format string, args ...any) {
			progress("%s, %s: %s", s, m.name(), fmt.Sprintf(format, args...))
		}); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}
