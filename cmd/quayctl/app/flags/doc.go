// Package flags contains the flags that several commands of quayctl have.
package flags
