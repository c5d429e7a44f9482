// Package oci only pins the versions that the judge in _inside is built with: the fields of the code that it calls are
// not exported.
package oci

import (
	_ "github.com/oracle/oci-cloud-controller-manager/pkg/cloudprovider/providers/oci"

	_ "quaymaster.dev/tools/vendors/judge"
)
