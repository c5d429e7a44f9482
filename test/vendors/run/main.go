// Command run compares a catalog with the vendor's own code: generated Services are given to both. It prints what it
// compared and each difference as a minimal manifest, and fails if there is one without an explanation.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"quaymaster.dev/internal/catalogfile"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/test/vendors"
)

// Result is what the reference page shows about a vendor.
type Result struct {
	vendors.Description
	vendors.Report

	Seed uint64 `json:"seed"`
	// Explanations is the number of explanations, all of which were needed.
	Explanations int `json:"explanations"`
}

// options are those of the command line.
type options struct {
	judge, folder, catalog, results string
	cases                           int
	seed                            uint64
}

func main() {
	var o options
	flag.StringVar(&o.judge, "judge", "", "the program that answers for the vendor")
	flag.StringVar(&o.folder, "folder", "", "the folder of the judge's source, with explanations.yaml")
	flag.StringVar(&o.catalog, "catalog", "", "a catalog's file, which changes the built-in catalog or adds one")
	flag.StringVar(&o.results, "results", "", "a folder for the figures that the reference page shows")
	flag.IntVar(&o.cases, "cases", 100000, "how many Services to generate")
	flag.Uint64Var(&o.seed, "seed", 1, "what the Services are generated from; the same seed generates the same ones")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "vendors:", err)
		os.Exit(1) //nolint:gocritic,forbidigo // this is main, and nothing is left to stop
	}
}

func run(ctx context.Context, o options) error {
	catalogs, err := o.library()
	if err != nil {
		return err
	}
	judge, err := vendors.Start(ctx, o.judge)
	if err != nil {
		return err
	}
	c, known := catalogs.Find(judge.Vendor)
	if !known {
		return fmt.Errorf("there is no catalog %q", judge.Vendor)
	}
	explanations, err := vendors.ReadExplanations(filepath.Join(o.folder, "explanations.yaml"))
	if err != nil {
		return err
	}
	comparison, err := vendors.NewComparison(catalogs, c.Name, explanations)
	if err != nil {
		return err
	}
	report, err := vendors.Run(vendors.NewGenerator(c, o.seed), comparison, judge, o.cases)
	if err != nil {
		return err
	}
	if err := judge.Stop(); err != nil {
		return err
	}
	if err := report.Write(os.Stdout); err != nil {
		return err
	}
	result := Result{Description: judge.Description, Report: *report, Seed: o.seed, Explanations: len(explanations)}
	result.print()
	if o.results != "" {
		if err := result.save(o.results); err != nil {
			return err
		}
	}
	return o.verdict(report, explanations)
}

// library returns the built-in catalogs with that of the file.
func (o options) library() (*library.Library, error) {
	if o.catalog == "" {
		return library.BuiltIn(), nil
	}
	sources, problems := catalogfile.Read([]string{o.catalog})
	extended, more := catalogfile.Extend(library.BuiltIn(), sources)
	return extended, errors.Join(catalogfile.Errors(append(problems, more...))...)
}

// verdict fails if something is not explained. Explanations that explain nothing fail the run whose figures are published;
// a shorter run, or one with another seed, may lack a rare case, so it only prints them.
func (o options) verdict(report *vendors.Report, explanations vendors.Explanations) error {
	var problems []error
	if report.Different > 0 {
		problems = append(problems, fmt.Errorf("%d Services differ without an explanation", report.Different))
	}
	if unused := explanations.Unused(); len(unused) > 0 {
		err := fmt.Errorf("explanations that explain nothing: %s", strings.Join(unused, "; "))
		if o.results != "" {
			problems = append(problems, err)
		} else {
			fmt.Fprintln(os.Stdout, err)
		}
	}
	return errors.Join(problems...)
}

func (r Result) print() {
	compared := r.Cases - r.Skipped
	fmt.Fprintf(os.Stdout, "%s: %s %s, %s\n", r.Vendor, r.Module, r.Version, r.Date)
	fmt.Fprintf(os.Stdout, "covers: %s\n", r.Covers)
	fmt.Fprintf(os.Stdout, "cases: %d with seed %d, of which neither looks at %d\n", r.Cases, r.Seed, r.Skipped)
	fmt.Fprintf(os.Stdout, "agree: %d of %d (%.2f %%), %d of them refused by both\n", r.Agree, compared, 100*float64(r.Agree)/float64(max(compared, 1)), r.Refused)
	fmt.Fprintf(os.Stdout, "differ: %d with one of %d explanations, %d without\n", r.Explained, r.Explanations, r.Different)
	for _, text := range r.NotCovered {
		fmt.Fprintf(os.Stdout, "not covered: %s\n", text)
	}
}

// save writes the figures for the reference page.
func (r Result) save(folder string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, r.Vendor+".json"), append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}
