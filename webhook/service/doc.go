// Package service adapts Services to admission: it writes defaults into those that become load balancers and refuses those that
// ask for what no load balancer can be. What the rules and the defaults are it is told.
package service
