package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// archiveName returns the name of an archive without its ending.
func (r release) archiveName(p product, platform string) string {
	return p.name + "_" + r.version + "_" + strings.ReplaceAll(platform, "/", "_")
}

// writeArchive packs the programs of a product, its manual and the licenses.
func (r release) writeArchive(p product, platform string) error {
	file, err := os.Create(filepath.Join(r.out, r.archiveName(p, platform)+".tar.gz"))
	if err != nil {
		return err
	}
	defer file.Close()
	zip := gzip.NewWriter(file)
	archive := tar.NewWriter(zip)
	for _, program := range p.programs {
		if err := r.add(archive, filepath.Join(r.built, platform, program), program, 0o755); err != nil {
			return err
		}
	}
	if err := r.addTree(archive, filepath.Join(r.built, "manual", p.name)); err != nil {
		return err
	}
	if err := r.add(archive, "LICENSE", "LICENSE", 0o644); err != nil {
		return err
	}
	if err := r.add(archive, r.licensesFile(p.name, platform), licenses, 0o644); err != nil {
		return err
	}
	return errors.Join(archive.Close(), zip.Close(), file.Close())
}

// addTree adds the files of a folder in the order of their names. Servers have no manual, and no folder.
func (r release) addTree(archive *tar.Writer, folder string) error {
	return filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		return r.add(archive, file, filepath.ToSlash(name), 0o644)
	})
}

// add adds a file without what differs from machine to machine.
func (r release) add(archive *tar.Writer, file, name string, mode int64) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: path.Clean(name), Mode: mode, Size: int64(len(content)), ModTime: r.time, Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = archive.Write(content)
	return err
}
