// Package cilium only pins the versions that the judge in _inside is built with: the functions that it calls are not
// exported. It does not import operator/pkg/lbipam, whose tests need a module that is not published everywhere; the
// other two packages need all that it does.
package cilium

import (
	_ "github.com/cilium/cilium/operator/pkg/nodeipam"
	_ "github.com/cilium/cilium/pkg/loadbalancer/reflectors"

	_ "quaymaster.dev/tools/vendors/judge"
)
