// Package nft keeps the content of an edge's table of nftables: it describes rulesets, and has the kernel change from one to
// the next without a moment that breaks the flow of a packet.
package nft
