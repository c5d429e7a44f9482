// Package loadbalancer goes from a Service to the load balancer that it asks for, or to everything that is wrong with it.
// Admission, controllers and linter call the same functions, so they cannot disagree.
package loadbalancer
