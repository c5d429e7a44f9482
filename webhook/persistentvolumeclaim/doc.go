// Package persistentvolumeclaim admits PersistentVolumeClaims. Between the mutating and the validating webhooks, an
// admission plugin of the API server decides whether a claim may grow; it gives no reason and does not know the limits
// of the cloud. So the mutating webhook explains, and the validating webhook enforces the limits. Package volume
// contains the checks.
package persistentvolumeclaim
