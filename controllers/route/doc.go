// Package route maintains the routes to the pods of Nodes in the cloud. It decides about all Nodes and routes together,
// writes the differences in batches, and reports the result of each Node in the condition NetworkUnavailable.
package route
