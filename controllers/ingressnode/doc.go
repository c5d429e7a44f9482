// Package ingressnode keeps the cloud's node groups equal to the Nodes that are to carry the traffic of load balancers. It
// is the one writer of their membership: pools of load balancers refer to a group, so that a change of a Node reaches all
// of them by one write, without any change to a Service.
package ingressnode
