// Package volume decides about persistent volumes: which labels and node affinity tie one to its zones, and how far a claim may
// grow.
package volume
