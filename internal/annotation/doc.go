// Package annotation describes annotation keys and turns their values, which are strings, into typed values or into one
// clear error. It knows no client, no clock and no network.
package annotation
