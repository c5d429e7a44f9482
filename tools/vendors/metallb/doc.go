// Package metallb only pins the versions that the judge in _inside is built with: MetalLB's controller is a package main,
// and what it uses is internal to its module.
package metallb

import _ "quaymaster.dev/tools/vendors/judge"
