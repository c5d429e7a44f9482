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

// Stdin is the file name that stands for standard input.
const Stdin = "-"

// stdinName is the file name of standard input in results.
const stdinName = "stdin"

// Names returns the files named by paths, which are files and directories, without duplicates. A directory stands for
// its files ending in .yaml, .yml or .json, in order; with recursive also for those of its subdirectories, except
// hidden ones.
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

// walk calls visit for each file, or with the error for what cannot be read.
func walk(path string, recursive bool, visit func(name string, err error)) {
	if path == Stdin {
		visit(path, nil)
		return
	}
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		visit(path, err)
		return
	}
	root := path + string(filepath.Separator) // also follows a symbolic link
	_ = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			visit(filepath.Clean(name), err)
		case entry.IsDir() && name != root && (!recursive || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)):
			visit(name, nil)
		}
		return nil
	}) // errors are passed to visit
}

// Read reads files concurrently, and returns their content in the order of names.
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
	_ = readers.Wait() // errors are reported per file
	return files
}

// unreadable returns the problem of a file. The name of the file is removed from the message, because Problem has it
// already.
func unreadable(name string, err error) Problem {
	message := err.Error()
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		message = at.Op + ": " + at.Err.Error()
	}
	return Problem{File: name, Message: message}
}
