// Package tenants attacks the webhooks through a real API server, as a tenant with the rights of one namespace could, and
// directly, as a pod could. Other tenants keep creating Services during each attack. The failure policy is Ignore, so a
// request that gets no answer is admitted: the attacks succeed if any invalid object is stored, if a valid Service of
// another tenant is refused, or if the webhook needs more than its share of memory or CPU time.
//
// By default, attacks are short. With -full, they last longer, and some have more variants.
package tenants
