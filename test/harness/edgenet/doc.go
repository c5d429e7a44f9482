// Package edgenet builds small networks of Linux network namespaces for tests of edges: a client, edges and nodes, each a
// machine with interfaces and routes of its own, joined by two switches. Packets are real, and so is everything that
// handles them.
//
//	client --ext-- outer switch --ext-- edges --int-- inner switch --int-- nodes
//
// The client is connected to the inner switch as well, as a router would be: nodes answer past the edges unless
// Topology.AnswerVia says otherwise.
//
// Programs and Go code run on a machine by Machine.Run, Machine.Start, Machine.Dial, Machine.Listen and Machine.Do. The
// namespaces have no names and end with the test's process, whatever ends it. They work on Linux only, for root: see
// Require.
package edgenet
