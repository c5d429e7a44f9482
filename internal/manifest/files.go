package manifest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Stdin is what stands for the standard input among the names of files.
const Stdin = "-"

// stdinName is what it is called where a file is named.
const stdinName = "stdin"

// Names are the files that are meant by files and folders, each once and those of a folder in order. Of a folder these are the ones
// whose names end in .yaml, .yml or .json; with recursive also those below, but for hidden folders.
func Names(paths []string, recursive bool) ([]string, []Problem) {
	var names []string
	var problems []Problem
	known := map[string]bool{}
	for _, path := range paths {
		walk(path, recursive, func(name string, err error) {
			if err != nil {
				problems = append(problems, unreadable(name, err))
			} else if !known[name] {
				known[name] = true
				names = append(names, name)
			}
		})
	}
	return names, problems
}

// walk tells each file, or why it cannot be told.
func walk(path string, recursive bool, tell func(name string, err error)) {
	if path == Stdin {
		tell(path, nil)
		return
	}
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		tell(path, err)
		return
	}
	root := path + string(filepath.Separator) // where it is a link, too
	_ = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			tell(filepath.Clean(name), err)
		case entry.IsDir() && name != root && (!recursive || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)):
			tell(name, nil)
		}
		return nil
	}) // what goes wrong is told of each file
}

// Read reads files, several at a time, and gives what is in them in the order of their names.
func Read(names []string, stdin io.Reader, wanted func(apiVersion, kind string) bool) []File {
	files := make([]File, len(names))
	var readers errgroup.Group
	readers.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		readers.Go(func() error {
			var data []byte
			var err error
			if name == Stdin {
				name = stdinName
				data, err = io.ReadAll(stdin)
			} else {
				data, err = os.ReadFile(name)
			}
			if err != nil {
				files[i] = File{Name: name, Problems: []Problem{unreadable(name, err)}}
				return nil
			}
			files[i] = Parse(filepath.ToSlash(name), data, wanted)
			return nil
		})
	}
	_ = readers.Wait() // what goes wrong is told of each file
	return files
}

// unreadable leaves the name of the file out of the error's text: it is told apart.
func unreadable(name string, err error) Problem {
	message := err.Error()
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		message = at.Op + ": " + at.Err.Error()
	}
	return Problem{File: name, Message: message}
}
