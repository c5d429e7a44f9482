// Package durable writes files that must be there, and complete, after the machine has lost power.
package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Replace replaces a file, or creates it, at once or not at all. Only its owner can read it. What an interruption leaves is
// one file, which the next call replaces, and not one more copy of private keys.
func Replace(path string, content []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// Write is Replace for content that is written in pieces.
func Write(path string, write func(io.Writer) error) (err error) {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// Sync makes the names of files in a folder durable, which are written on their own.
func Sync(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
