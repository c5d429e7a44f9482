// Package policy validates existing Services against the policies that apply to them, whenever either changes, and
// reports the result in the status of the policies, in Events and in a metric. It changes no Service.
package policy
