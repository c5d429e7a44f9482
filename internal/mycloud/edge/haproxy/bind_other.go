//go:build !linux

package haproxy

// bindAnywhere does nothing: edges need Linux, but programs with this package can still be built elsewhere.
func bindAnywhere(int) error { return nil }
