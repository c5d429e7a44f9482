// Package controllers tests the controllers role: the built binary with the rights of its ServiceAccount, on a real API
// server, against the reference cloud.
package controllers
