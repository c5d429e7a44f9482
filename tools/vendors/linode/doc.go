// Package linode only pins the versions that the judge in _inside is built with: the constructor of the code that it calls
// is not exported.
package linode

import (
	_ "github.com/linode/linode-cloud-controller-manager/cloud/linode"

	_ "quaymaster.dev/tools/vendors/judge"
)
