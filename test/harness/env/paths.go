package env

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// module is the first line of the go.mod at the root of the repository.
const module = "module quaymaster.dev\n"

// Root returns the root of the repository, searching upwards from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(data), module) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the repository: no go.mod of quaymaster.dev in the working directory or above")
		}
		dir = parent
	}
}

// Tool returns the path of a pinned tool such as kube-apiserver: in KUBEBUILDER_ASSETS if it is there, otherwise in
// bin/tools. The error names the make target that builds it.
func Tool(name string) (string, error) {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		if path := filepath.Join(assets, name); executable(path) == nil {
			return filepath.Abs(path)
		}
	}
	return built(filepath.Join("bin", "tools", name), "tool-"+name)
}

// Program returns the path of one of the project's binaries. The error names the make target that builds it.
func Program(name string) (string, error) {
	return built(filepath.Join("bin", name), "build")
}

func built(file, target string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, file)
	if err := executable(path); err != nil {
		return "", fmt.Errorf("%s is missing, run `make %s`: %w", file, target, err)
	}
	return path, nil
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return &fs.PathError{Op: "execute", Path: path, Err: fs.ErrPermission}
	}
	return nil
}
