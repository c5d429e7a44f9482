//go:build !linux

package main

// stopWithParent does nothing: only Linux can signal the end of the parent process.
func stopWithParent() error { return nil }
