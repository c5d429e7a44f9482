// Package flags contains the flags that several commands of quayctl have, and connects to the cluster and the cloud that they select.
package flags
