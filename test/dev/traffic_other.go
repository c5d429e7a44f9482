//go:build !linux

package main

import "context"

// traffic does not exist: edges need the Linux kernel.
type traffic struct{}

func lacking() string { return "Linux" }

func (d *demo) startTraffic(context.Context) error { return nil }

func (d *demo) chooseRanges() (string, error) { return "", nil }

func (t *traffic) stop() error { return nil }
