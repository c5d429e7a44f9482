// Package service reconciles Services with the load balancers of the cloud. It owns finalizer, record, status and
// conditions of the Services; the cloud is behind an interface.
package service
