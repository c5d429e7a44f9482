// Package edge tests whole edges: the programs mycloud serve and mycloud edge, HAProxy and the kernel, in networks of
// namespaces with real packets. It needs root, nft and haproxy, and skips where they are missing.
package edge
