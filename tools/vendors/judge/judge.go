// Package judge is the loop of a program that answers for Services what a vendor's own code says about them. The
// protocol is in docs/reference/catalogs.md: one Service as JSON per line of standard input, one verdict as JSON per
// line of standard output, in the same order.
package judge

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	corev1 "k8s.io/api/core/v1"
)

// Description is what the flag -describe prints.
type Description struct {
	// Vendor is the name of the catalog that is compared.
	Vendor string `json:"vendor"`
	// Module is the vendor's module, Version its release or commit, and Date the day of that commit. If they are empty,
	// tools/vendors/build.sh sets both for code from a checkout, and a pinned module has the version that go.mod says.
	Module  string `json:"module"`
	Version string `json:"version"`
	Date    string `json:"date"`
	// Covers names the vendor's functions that are called.
	Covers string `json:"covers"`
	// NotCovered lists what is decided only at run time in the cloud.
	NotCovered []string `json:"notCovered"`
}

// Verdict is what the vendor's code says about one Service; the zero Verdict accepts it.
type Verdict struct {
	// Error is the vendor's error if it refuses the Service.
	Error string `json:"error,omitempty"`
	// Warning is what the vendor's code only writes to its log, or to a condition, before it does something else.
	Warning string `json:"warning,omitempty"`
	// Skip is the reason if the vendor's code does not look at the Service.
	Skip string `json:"skip,omitempty"`
}

// Accept is the verdict without a problem.
func Accept() Verdict { return Verdict{} }

// Refuse is the verdict of an error; without one, the Service is accepted.
func Refuse(err error) Verdict {
	if err == nil {
		return Accept()
	}
	return Verdict{Error: err.Error()}
}

// Warn is the verdict of a Service that is accepted with a warning; without one, it is only accepted.
func Warn(text string) Verdict { return Verdict{Warning: text} }

// Skip is the verdict of a Service that the vendor's code does not look at.
func Skip(reason string) Verdict { return Verdict{Skip: reason} }

// ServiceController skips what the service controller of Kubernetes does not pass on to a vendor's load balancers.
func ServiceController(judge func(*corev1.Service) Verdict) func(*corev1.Service) Verdict {
	return func(service *corev1.Service) Verdict {
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer || service.Spec.LoadBalancerClass != nil {
			return Skip("the service controller passes on only Services of type LoadBalancer without a class")
		}
		return judge(service)
	}
}

// version and date are those of the vendor's code that the program was built with.
var version, date string

// Main runs the program and exits.
func Main(d Description, judge func(*corev1.Service) Verdict) {
	describe := flag.Bool("describe", false, "print what is called, and exit")
	flag.Parse()
	out := os.Stdout
	// Whatever the vendor's code prints must not mix with the verdicts.
	os.Stdout = os.Stderr
	var err error
	if *describe {
		d.Version, d.Date = cmp.Or(d.Version, version, pinned(d.Module)), cmp.Or(d.Date, date)
		err = json.NewEncoder(out).Encode(d)
	} else {
		err = run(os.Stdin, out, judge)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
	os.Exit(0) // whatever the vendor's code has started
}

// pinned returns the version of a module that the program was built with.
func pinned(module string) string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return ""
}

func run(in io.Reader, out io.Writer, judge func(*corev1.Service) Verdict) error {
	reader, writer := bufio.NewReaderSize(in, 1<<20), bufio.NewWriterSize(out, 1<<20)
	encoder := json.NewEncoder(writer)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) == 0 && errors.Is(err, io.EOF) {
			return writer.Flush()
		}
		if err != nil {
			return fmt.Errorf("read a Service: %w", err)
		}
		var service corev1.Service
		if err := json.Unmarshal(line, &service); err != nil {
			return fmt.Errorf("decode a Service: %w", err)
		}
		if err := encoder.Encode(safely(judge, &service)); err != nil {
			return fmt.Errorf("write a verdict: %w", err)
		}
		// A program that waits for this verdict before it sends the next Service must get it.
		if reader.Buffered() == 0 {
			if err := writer.Flush(); err != nil {
				return fmt.Errorf("write a verdict: %w", err)
			}
		}
	}
}

// safely turns a panic of the vendor's code into an error: its controller would fail, too.
func safely(judge func(*corev1.Service) Verdict, service *corev1.Service) (v Verdict) {
	defer func() {
		if p := recover(); p != nil {
			v = Verdict{Error: fmt.Sprint("panic: ", p)}
		}
	}()
	return judge(service)
}
