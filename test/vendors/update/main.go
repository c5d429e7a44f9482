// Command update lists where a catalog and its vendor's current source differ in the keys that they know: keys that one of
// the two lacks, and keys that the vendor's functions treat differently since the version that the catalog describes. It
// also lists places in the source that the catalog names and the source no longer has.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"quaymaster.dev/test/vendors"
)

// What the program exits with if the catalog is current, if something has to be done, and if a source cannot be read.
const (
	current = iota
	outdated
	unread
)

func main() {
	root := flag.String("root", ".", "the folder of this repository")
	vendor := flag.String("vendor", "", "the name of the catalog")
	sources := flag.String("sources", "", "a folder with checkouts of the vendors' repositories")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, *root, *vendor, *sources, os.Stdout, os.Stderr)) //nolint:gocritic,forbidigo // this is main, and nothing is left to stop
}

// run writes what has to be done to out, one line for each key, and returns the exit code. Everything else goes to log.
func run(ctx context.Context, root, vendor, sources string, out, log io.Writer) int {
	all, err := update(ctx, root, vendor, sources, log)
	if err != nil {
		fmt.Fprintln(log, "catalogs-update:", err)
		return unread
	}
	for _, d := range all {
		fmt.Fprintln(out, d)
	}
	if len(all) > 0 {
		return outdated
	}
	return current
}

// update returns the differences between the catalog and the sources of its vendor.
func update(ctx context.Context, root, vendor, sources string, log io.Writer) (all []difference, err error) {
	c, err := readCatalog(root, vendor)
	if err != nil {
		return nil, err
	}
	var now, then []*code
	var missing []string
	for i, repository := range c.repositories() {
		folder, version, err := c.locate(ctx, root, repository, sources)
		if err != nil {
			return nil, err
		}
		read, err := readCode(folder, repository, c)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(log, "%s: read %s %s\n", vendor, repository, version)
		now = append(now, read)
		former, err := c.readFormer(ctx, repository, i, sources)
		if err != nil {
			missing = append(missing, err.Error())
			continue
		}
		then = append(then, former)
	}
	if len(missing) > 0 {
		fmt.Fprintf(log, "%s: not compared with %s, which the catalog describes: %s\n", vendor, c.Version, strings.Join(missing, "; "))
		then = nil
	}
	keys := merge(now)
	explanations, err := vendors.ReadExplanations(filepath.Join(root, judges, c.Name, explained))
	if err != nil {
		return nil, err
	}
	all = slices.Concat(c.compare(keys, merge(then)), c.moved(now, explanations))
	count := func(k kind) int { return len(slices.Collect(only(all, k))) }
	fmt.Fprintf(log, "%s: the source has %d keys: %d new, %d gone, %d different, %d needlessly listed, %d places moved\n",
		vendor, len(keys), count(added), count(gone), count(changed), count(needless), count(moved))
	return all, nil
}

// readFormer reads the source of the repository at an index at the version that the catalog describes.
func (c *catalog) readFormer(ctx context.Context, repository string, index int, sources string) (read *code, err error) {
	revision, known := c.revision(index)
	if !known {
		return nil, fmt.Errorf("version %q has no commit or tag of %s", c.Version, repository)
	}
	into, err := os.MkdirTemp("", "catalogs-update-")
	if err != nil {
		return nil, fmt.Errorf("create a folder for the former source: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(into)) }()
	folder, err := c.locateFormer(ctx, revision, repository, sources, into)
	if err != nil {
		return nil, err
	}
	return readCode(folder, repository, c)
}
