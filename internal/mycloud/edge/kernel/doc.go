// Package kernel makes the Linux kernel carry the traffic of an edge's listeners, by nftables and policy routing.
//
// Direct listeners: a hash of the client's address and port selects one of 1021 places, and a table says which member
// has the place. The packet gets the member's mark, and a routing table of the mark sends it to the member unchanged.
// The table is a rendezvous table, the same on each edge with the same healthy members, so that a client's connections
// survive the loss of an edge. A map remembers the mark of each flow, so that connections stay on their member when the
// table changes.
//
// NAT listeners: the same tables, but the mark selects the member's address and port, to which conntrack rewrites the
// packets, with the edge's own address as their source.
//
// What the package has written stays in force without it: rules, flows and routes are the kernel's. All changes of rules
// are one transaction, and no chain is ever hooked again, so that no packet sees half a change.
package kernel
