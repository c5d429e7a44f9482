// Package policy judges the Services that are there already by the policies that apply to them, when either changes, and
// writes what it finds into the status of the policies, their Events and a metric. It changes no Service.
package policy
