// Package persistentvolume admits PersistentVolumes: those of the cloud get the labels and the node affinity of their
// zones. Package volume determines both.
package persistentvolume
