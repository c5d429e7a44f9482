// Package addresses makes the machine of an edge answer for the addresses of load balancers: it adds them to an interface, and
// removes those that it has added.
package addresses
