// Package cloudapi is a typed HTTP client of the mycloud API, whose types are in api/mycloud/v1.
package cloudapi
