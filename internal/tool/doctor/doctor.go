// Package doctor runs the checks of an installation one after the other, and reports what they found and how to fix it.
// The checks themselves are in the packages below it, one for each part of an installation; they change nothing.
package doctor

import (
	"context"
	"time"
)

// limit limits the duration of one check, so that a part that hangs does not hide the others.
const limit = 20 * time.Second

// Check is one step. It is skipped if a check in Needs has failed, lacked the permission to read, or was itself skipped
// for that reason.
type Check struct {
	Name string
	// Needs names earlier checks.
	Needs []string
	Run   func(context.Context) Result
}

// Run runs all checks, in their order.
func Run(ctx context.Context, checks []Check) Report {
	var report Report
	blocked := map[string]string{}
	for _, c := range checks {
		result := c.step(ctx, blocked)
		result.Check = c.Name
		report = append(report, result)
	}
	return report
}

// step runs a check, or skips it because of another one. blocked has the check to blame for each that did not succeed,
// itself or one that it needs.
func (c Check) step(ctx context.Context, blocked map[string]string) Result {
	for _, name := range c.Needs {
		if root := blocked[name]; root != "" {
			blocked[c.Name] = root
			return Skipped("not run because of %s", root)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result := c.Run(ctx)
	if result.Level == Fail || result.blind {
		blocked[c.Name] = c.Name
	}
	return result
}
