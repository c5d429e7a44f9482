// Package version tells what build of the program this is.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version and commit are stamped by the linker.
var (
	version string
	commit  string
)

// Version is the release, such as v1.2.0; a build that is not stamped has that of its module, or "devel".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// Commit is the revision of the source, or "unknown".
func Commit() string {
	if commit != "" {
		return commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// String is version, commit, Go release and platform in one line.
func String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s/%s)", Version(), Commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
