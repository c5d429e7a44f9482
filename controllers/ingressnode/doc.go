// Package ingressnode reconciles the cloud's node groups with the Nodes that carry the traffic of load balancers. It is
// the only writer of their members: pools of load balancers refer to a group, so that a change of a Node reaches all of
// them with one write and without any change to a Service.
package ingressnode
