//go:build linux

package kernel

import "time"

// Expire makes the next call of Counters read the counters.
func (e *Engine) Expire() {
	e.countNext = time.Time{}
}
