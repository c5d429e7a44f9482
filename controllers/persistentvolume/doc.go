// Package persistentvolume completes PersistentVolumes of the cloud that were created while nobody could say where their volumes
// are: it adds the labels of their zones and, as long as there is none, the node affinity.
package persistentvolume
