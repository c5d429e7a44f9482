package v1

import "embed"

// Source is the source of this package, whose comments describe types and fields in the OpenAPI document. Programs that
// do not refer to it do not contain it.
//
//go:embed *.go
var Source embed.FS
