// Package volume determines the zone labels and the node affinity of PersistentVolumes, and how far
// PersistentVolumeClaims may grow.
package volume
