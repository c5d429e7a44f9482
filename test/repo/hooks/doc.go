// Package hooks tests how other repositories use this one: as a hook of pre-commit, and as an action of GitHub.
package hooks
