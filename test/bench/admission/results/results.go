// Package results writes the results of benchmarks in the format of `go test -bench`, which benchstat reads.
package results

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"k8s.io/client-go/discovery"

	"quaymaster.dev/test/bench/admission/machine"
	"quaymaster.dev/test/harness/env"
)

// Value is a figure with its unit, as benchstat writes it: sec and B, with a name before it or something that it is
// divided by, as in p50-sec and cpu-sec/op.
type Value struct {
	Number float64
	Unit   string
}

// Seconds returns a time.
func Seconds(d time.Duration, unit string) Value { return Value{Number: d.Seconds(), Unit: unit} }

// Memory returns the memory of a process.
func Memory(m machine.Memory) []Value {
	return []Value{{Number: float64(m.Resident), Unit: "resident-B"}, {Number: float64(m.Anonymous), Unit: "anonymous-B"}}
}

// Write writes the line of a benchmark at once. Its name has the keys by which benchstat compares, as in
// Create/admission=none.
func Write(w io.Writer, name string, iterations uint64, values ...Value) {
	fields := []string{"Benchmark" + strings.ReplaceAll(name, " ", "_"), fmt.Sprint(iterations)}
	for _, v := range values {
		fields = append(fields, fmt.Sprintf("%.6g %s", v.Number, v.Unit))
	}
	fmt.Fprintln(w, strings.Join(fields, "\t"))
}

// Describe writes the machine and the programs that are measured. benchstat prints these lines above its tables.
func Describe(ctx context.Context, w io.Writer, e *env.Env) error {
	client, err := discovery.NewDiscoveryClientForConfig(e.Admin)
	if err != nil {
		return err
	}
	server, err := client.ServerVersion()
	if err != nil {
		return err
	}
	quayctl, err := env.Program("quayctl")
	if err != nil {
		return err
	}
	version, err := env.Run(ctx, "", quayctl, "version")
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(version.Stdout, "\n")
	fmt.Fprintf(w, "goos: %s\ngoarch: %s\ncores: %d\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	fmt.Fprintf(w, "kube-apiserver: %s\nquaymaster: %s\n", server.GitVersion, line)
	// Other systems and architectures do not name the processor there.
	processors, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(processors)) {
		if model, ok := strings.CutPrefix(line, "model name\t: "); ok {
			_, err := io.WriteString(w, "cpu: "+model)
			return err
		}
	}
	return nil
}
