// Package catalog knows what the load balancer controllers of other clouds understand: which annotations, in which dialect, and
// what each controller does with a value that it does not understand. It judges Services by that.
//
// The knowledge is data, a YAML file a controller under vendors/, in the types of Document. What a flat entry cannot hold is a
// Behaviour in Go that the file names. The package knows no client, no clock and no network.
package catalog
