// Package persistentvolumeclaim adapts PersistentVolumeClaims to admission. The API server has a plugin that decides whether a claim
// may grow, between the mutating and the validating webhooks; it does not say why not, and knows no limits. So the mutating webhook
// explains, and the validating one decides by the limits of the cloud. What the rules are it is told.
package persistentvolumeclaim
