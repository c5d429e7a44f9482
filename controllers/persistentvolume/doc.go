// Package persistentvolume completes PersistentVolumes of the cloud that were created while the zones of their volumes
// could not be determined: it adds the labels of the zones and, if there is none yet, the node affinity.
package persistentvolume
