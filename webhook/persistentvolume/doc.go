// Package persistentvolume adapts PersistentVolumes to admission: those of the cloud get the labels and the node affinity of their
// zones. What belongs to a volume it is told.
package persistentvolume
