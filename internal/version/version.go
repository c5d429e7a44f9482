// Package version identifies the build of the program.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version and commit are set by the linker.
var (
	version string
	commit  string
)

// Version returns the release, such as v1.2.0; without linker flags, the version of the module or "devel".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// Commit returns the revision of the source, or "unknown".
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

// String returns version, commit, Go release and platform in one line.
func String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s/%s)", Version(), Commit(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
}
