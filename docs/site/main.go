// Command site writes the documentation as a static site into the folder given as its argument: the pages of docs, the
// README of the project and that of the chart, with navigation and search. The site needs no server of its own and no
// other host, and works below any path.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "folder of the repository")
	version := flag.String("version", "", "version to name on every page")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: site [-root FOLDER] [-version VERSION] FOLDER")
		os.Exit(2)
	}
	if err := run(*root, *version, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(root, version, folder string) error {
	source, err := read(os.DirFS(root))
	if err != nil {
		return err
	}
	return source.write(folder, version)
}
