// Package digitalocean only pins the versions that the judge in _inside is built with: the constructor of the code that
// it calls is not exported.
package digitalocean

import (
	_ "github.com/digitalocean/digitalocean-cloud-controller-manager/cloud-controller-manager/do"

	_ "quaymaster.dev/tools/vendors/judge"
)
